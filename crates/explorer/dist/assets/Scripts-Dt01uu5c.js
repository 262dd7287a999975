import"./disclose-version-xihTtKlq.js";import{At as e,Ct as t,Et as n,H as r,I as i,It as a,L as o,M as s,Pt as c,Q as l,R as ee,St as u,V as d,X as te,Y as f,Z as ne,_ as p,_t as m,a as h,bt as g,c as _,ct as v,dt as y,ht as re,it as b,j as x,jt as S,l as C,lt as w,mt as T,n as E,nt as D,tt as O,u as k,vt as A,xt as j,yt as M}from"./api.svelte-L18_urCM.js";import{C as N,S as ie,_ as ae,d as oe,f as se,t as ce,y as le}from"./index-BBWjKluf.js";import{t as ue}from"./Editor-DAcqOOvx.js";import{t as de}from"./Tablist-C48F41f9.js";var fe=b(`<li><button class="link"> </button></li>`),pe=b(`<li class="quiet small"> </li>`),me=b(`<button class="small"> </button>`),he=b(`<p class="small row wrap"> <!><button class="small"> </button></p>`),ge=b(`<option> </option>`),_e=b(`<label> <select><option>Pre</option><option>Post</option></select></label><label> <select></select></label>`,1),ve=b(`<button class="danger"> </button>`),ye=b(`<button class="primary"> </button><!>`,1),be=b(`<li><code> </code> </li>`),xe=b(`<ul class="small"></ul>`),Se=b(`<p role="status"><span class="ru big"> </span> </p> <!>`,1),Ce=b(`<div class="row wrap"><label> <input class="mono"/></label><label class="grow"> <input class="mono"/></label><button class="primary"> </button></div> <details><summary> </summary> <div class="row wrap"><label class="grow"> <input class="mono"/></label><button> </button><button> </button></div> <!></details>`,1),we=b(`<h3> </h3><pre> </pre>`,1),Te=b(`<section role="status"><p><span class="ru big"> </span> </p><pre> </pre><!></section>`),Ee=b(`<div class="row wrap"><label class="grow"> <input/></label> <!> <!></div> <!> <!> <!> <!>`,1),De=b(`<div class="empty"><p> </p></div><!>`,1),Oe=b(`<div class="page scripts"><h1 class="visually-hidden"> </h1> <div class="side-list"><div class="tabs"><!></div> <ul></ul> <!></div> <div class="script"><!></div></div>`);function P(v,b){S(b,!0);let P=x.scripts,ke=le(),{database:F,container:I}=ke.place,L={sprocs:P.procedures,triggers:P.triggers,udfs:P.functions},Ae={sprocs:`StoredProcedures`,triggers:P.triggers,udfs:`UserDefinedFunctions`},je={sprocs:{counter:`function counter(id, by) {
  const context = getContext();
  const collection = context.getCollection();
  const link = collection.getAltLink() + "/docs/" + id;
  collection.readDocument(link, (error, item) => {
    if (error) throw error;
    item.count = (item.count || 0) + by;
    collection.replaceDocument(item._self, item, (error, saved) => {
      if (error) throw error;
      context.getResponse().setBody(saved.count);
    });
  });
}
`,"capped list":`// Keeps the newest entries of a list inside one item.
function push(id, entry, most) {
  const collection = getContext().getCollection();
  const link = collection.getAltLink() + "/docs/" + id;
  collection.readDocument(link, (error, item) => {
    if (error) throw error;
    item.entries = [entry, ...(item.entries || [])].slice(0, most);
    collection.replaceDocument(item._self, item, (error) => {
      if (error) throw error;
      getContext().getResponse().setBody(item.entries.length);
    });
  });
}
`,"bulk delete":`function bulkDelete(condition) {
  const collection = getContext().getCollection();
  let deleted = 0;
  next();
  function next() {
    const accepted = collection.queryDocuments(collection.getSelfLink(), "SELECT c._self FROM c WHERE " + condition, {}, (error, items) => {
      if (error) throw error;
      if (items.length === 0) return done();
      remove(items);
    });
    if (!accepted) done();
  }
  function remove(items) {
    if (items.length === 0) return next();
    const accepted = collection.deleteDocument(items[0]._self, {}, (error) => {
      if (error) throw error;
      deleted++;
      remove(items.slice(1));
    });
    if (!accepted) done();
  }
  function done() { getContext().getResponse().setBody({ deleted }); }
}
`},triggers:{uniqueness:`// Before create: no other item of this partition may have this name.
function unique() {
  const context = getContext();
  const item = context.getRequest().getBody();
  const collection = context.getCollection();
  const query = { query: "SELECT VALUE COUNT(1) FROM c WHERE c.name = @name AND c.id != @id", parameters: [{ name: "@name", value: item.name }, { name: "@id", value: item.id }] };
  collection.queryDocuments(collection.getSelfLink(), query, {}, (error, found) => {
    if (error) throw error;
    if (found[0] > 0) throw new Error("There is an item of this name already.");
  });
}
`,"check before writing":`function check() {
  const item = getContext().getRequest().getBody();
  if (!item.name) throw new Error("An item needs a name.");
  item.updated = new Date().toISOString();
  getContext().getRequest().setBody(item);
}
`},udfs:{tax:`function tax(income) {
  return income < 1000 ? 0 : income * 0.1;
}
`}},R=t(`sprocs`),z=j({sprocs:[],triggers:[],udfs:[]}),B=t(void 0),V=t(``),H=t(``),U=t(`Pre`),W=t(`All`),G=t(void 0),Me=t(``),K=t(j([])),q=t(`[]`),J=t(void 0),Y=t([]),X=n(()=>`${h(F,I)}/${y(R)}`);re(()=>ke.unsaved(k.write&&y(H)!==(y(B)?.body??``)&&y(H)!==``)),s(async()=>{N(F,I).then(e=>{u(K,e.partitionKey.paths,!0)},()=>void 0),await Fe();let e=ke.place.rest.get(`new`);e&&e in L&&(u(R,e,!0),$(void 0,`function name() {
}
`))});let Ne=t(`SELECT * FROM c`),Z=t(void 0),Q=t(!1);async function Pe(){if(!y(B))return;u(G,u(J,void 0),!0),u(Q,!1);let e=null;u(Z,{partitions:0,succeeded:0,charge:0,milliseconds:0,failures:[],going:!0},!0);try{do{let t={"x-armilla-for-each-partition":`true`,...e?{"x-ms-continuation":e}:{}},n=await E(`${y(X)}/${_(y(B).id)}`,{method:`POST`,headers:t,body:`{"query":${JSON.stringify(y(Ne))},"arguments":${y(q)||`[]`}}`,what:P.executeForEach(y(B).id)}),r=JSON.parse(n.text);u(Z,{partitions:y(Z).partitions+r.partitions,succeeded:y(Z).succeeded+r.succeeded,charge:y(Z).charge+n.charge,milliseconds:y(Z).milliseconds+n.milliseconds,failures:[...y(Z).failures,...r.failures].slice(0,1e3),going:!0},!0),e=n.headers.get(`x-ms-continuation`)}while(e&&!y(Q))}catch(e){u(G,C(e),!0)}u(Z,{...y(Z),going:!1},!0)}async function Fe(){try{for(let e of Object.keys(L)){let t=await E(`${h(F,I)}/${e}`,{quiet:!0});z[e]=(JSON.parse(t.text)[Ae[e]]??[]).sort((e,t)=>e.id.localeCompare(t.id))}ie.scripts={of:`${F}/${I}`,count:Object.values(z).reduce((e,t)=>e+t.length,0)}}catch(e){u(G,C(e),!0)}}function $(e,t=``){u(B,e,!0),u(V,e?.id??``,!0),u(H,e?.body??t,!0),u(U,e?.triggerType??`Pre`,!0),u(W,e?.triggerOperation??`All`,!0),u(G,u(J,void 0),!0),u(Y,[])}async function Ie(){u(G,void 0);let e=JSON.stringify({id:y(V),body:y(H),...y(R)===`triggers`?{triggerType:y(U),triggerOperation:y(W)}:{}});try{y(B)?await E(`${y(X)}/${_(y(B).id)}`,{method:`PUT`,headers:{"if-match":y(B)._etag},body:e,what:P.save(y(V))}):await E(y(X),{method:`POST`,body:e,what:P.create(y(V))});let t=y(V);await Fe(),u(B,z[y(R)].find(e=>e.id===t),!0)}catch(e){u(G,C(e),!0)}}async function Le(){if(y(B)&&confirm(P.deleteIt(y(B).id)))try{await E(`${y(X)}/${_(y(B).id)}`,{method:`DELETE`,headers:{"if-match":y(B)._etag}}),$(void 0),await Fe()}catch(e){u(G,C(e),!0)}}async function Re(){if(y(B)){u(G,u(J,void 0),!0),u(Y,[]);try{let e=await E(`${y(X)}/${_(y(B).id)}`,{method:`POST`,headers:{"x-ms-documentdb-partitionkey":p(oe(y(Me))),"x-ms-documentdb-script-enable-logging":`true`},body:y(q),what:P.execute(y(B).id)});u(J,{body:e.text,log:decodeURIComponent(e.headers.get(`x-ms-documentdb-script-log-results`)??``),charge:e.charge,milliseconds:e.milliseconds},!0)}catch(e){u(G,C(e),!0);let t=Number(/(?:<anonymous>|\.js|\bline)[: ](\d+)/i.exec(y(G).message)?.[1]??/:(\d+)(?::\d+)?\)?/.exec(y(G).message)?.[1]??0),n=y(H).split(`
`);if(t>0&&t<=n.length){let e=n.slice(0,t-1).join(`
`).length+ +(t>1);u(Y,[{from:e,to:e+n[t-1].length,severity:`error`,message:y(G).message.slice(0,300)}])}}}}var ze=Oe(),Be=m(ze),Ve=M(Be,!0),He=g(Be,2),Ue=m(He),We=m(Ue);{let e=n(()=>Object.keys(L).map(e=>[e,`${L[e]} ${z[e].length}`]));de(We,{get label(){return P.kindsOfScripts},get tabs(){return y(e)},get value(){return y(R)},onchange:e=>{e!==y(R)&&(u(R,e,!0),$(void 0))}})}c(Ue);var Ge=g(Ue,2);f(Ge,21,()=>z[y(R)],e=>e.id,(e,t)=>{var n=fe(),r=m(n),i=M(r,!0);c(n),T(()=>{ee(r,`aria-current`,y(B)?.id===y(t).id?`true`:void 0),O(i,y(t).id)}),w(`click`,r,()=>$(y(t))),D(e,n)},e=>{var t=pe(),n=M(t,!0);T(()=>O(n,P.noneYet)),D(e,t)}),c(Ge);var Ke=g(Ge,2),qe=e=>{var t=he(),r=m(t),i=g(r);f(i,17,()=>Object.entries(je[y(R)]),([e,t])=>e,(e,t)=>{var r=n(()=>a(y(t),2));let i=()=>y(r)[0],o=()=>y(r)[1];var s=me(),c=M(s,!0);T(()=>O(c,i())),w(`click`,s,()=>$(void 0,o())),D(e,s)});var o=g(i),s=M(o,!0);c(t),T(()=>{O(r,`${P.newFrom??``} `),O(s,P.nothing)}),w(`click`,o,()=>$(void 0,`function name() {
}
`)),D(e,t)};l(Ke,e=>{k.write&&e(qe)}),c(He);var Je=g(He,2),Ye=m(Je),Xe=e=>{var t=Ee(),a=A(t),s=m(a),p=m(s,!0),h=g(p);o(h),c(s);var _=g(s,2),v=e=>{var t=_e(),n=A(t),i=m(n,!0),a=g(i);r(a),c(n);var o=g(n),s=m(o,!0),l=g(s);f(l,20,()=>[`All`,`Create`,`Replace`,`Delete`,`Update`],e=>e,(e,t)=>{var n=ge(),r=M(n,!0),i={};T(()=>{O(r,t),i!==(i=t)&&(n.__value=i)}),D(e,n)}),c(l),r(l),c(o),T(()=>{O(i,P.when),O(s,P.on)}),d(a,()=>y(U),e=>u(U,e)),d(l,()=>y(W),e=>u(W,e)),D(e,t)};l(_,e=>{y(R)===`triggers`&&e(v)});var re=g(_,2),b=e=>{var t=ye(),n=A(t),r=M(n,!0),i=g(n),a=e=>{var t=ve(),n=M(t,!0);T(()=>O(n,P.deleteIt2)),w(`click`,t,Le),D(e,t)};l(i,e=>{y(B)&&e(a)}),T(()=>{n.disabled=!y(V),O(r,P.save2)}),w(`click`,n,Ie),D(e,t)};l(re,e=>{k.write&&e(b)}),c(a);var x=g(a,2);ne(x,()=>`${y(R)}/${y(B)?.id??``}`,e=>{{let t=n(()=>!k.write);ue(e,{kind:`javascript`,get label(){return P.sourceOfTheScript},get marks(){return y(Y)},get readonly(){return y(t)},onsave:Ie,onrun:Re,get value(){return y(H)},set value(e){u(H,e,!0)}})}});var S=g(x,2),C=e=>{var t=Ce(),n=A(t),r=m(n),a=m(r,!0),s=g(a);o(s),c(r);var d=g(r),ne=m(d,!0),p=g(ne);o(p),c(d);var h=g(d),_=M(h,!0);c(n);var v=g(n,2),re=m(v),b=M(re,!0),x=g(re,2),S=m(x),C=m(S,!0),E=g(C);o(E),c(S);var k=g(S),j=M(k,!0),N=g(k),ie=M(N,!0);c(x);var oe=g(x,2),ce=e=>{var t=Se(),n=A(t),r=m(n),i=M(r,!0),a=g(r);c(n);var o=g(n,2),s=e=>{var t=xe();f(t,21,()=>y(Z).failures.slice(0,50),te,(e,t)=>{var n=be(),r=m(n),i=M(r,!0),a=g(r);c(n),T(e=>{O(i,e),O(a,` ${y(t).status??``??``} ${y(t).message??``??``}`)},[()=>JSON.stringify(y(t).partitionKey)]),D(e,n)}),c(t),D(e,t)};l(o,e=>{y(Z).failures.length&&e(s)}),T((e,t)=>{O(i,e),O(a,` ${t??``}`)},[()=>P.ru(ae(y(Z).charge)),()=>P.ofPartitionsFailed(se(y(Z).milliseconds),y(Z).succeeded,y(Z).partitions,y(Z).going,y(Q),y(Z).failures.length)]),D(e,t)};l(oe,e=>{y(Z)&&e(ce)}),c(v),T(e=>{O(a,P.partitionKey),ee(s,`placeholder`,e),O(ne,P.arguments),O(_,P.run),O(b,P.runInEveryPartitionThat),O(C,P.query),k.disabled=y(Z)?.going,O(j,P.runForEach),N.disabled=!y(Z)?.going,O(ie,P.stop)},[()=>y(K).length>1?`["${y(K).join(`", "`)}"]`:y(K)[0]??``]),i(s,()=>y(Me),e=>u(Me,e)),i(p,()=>y(q),e=>u(q,e)),w(`click`,h,Re),i(E,()=>y(Ne),e=>u(Ne,e)),w(`click`,k,Pe),w(`click`,N,()=>u(Q,!0)),D(e,t)};l(S,e=>{y(R)===`sprocs`&&y(B)&&k.write&&e(C)});var E=g(S,2),j=e=>{ce(e,{get failure(){return y(G)}})};l(E,e=>{y(G)&&e(j)});var N=g(E,2),ie=e=>{var t=Te(),n=m(t),r=m(n),i=M(r,!0),a=g(r);c(n);var o=g(n),s=M(o,!0),u=g(o),d=e=>{var t=we(),n=A(t),r=M(n,!0),i=g(n),a=M(i,!0);T(()=>{O(r,P.consoleLog),O(a,y(J).log)}),D(e,t)};l(u,e=>{y(J).log&&e(d)}),c(t),T((e,n)=>{ee(t,`aria-label`,P.result),O(i,e),O(a,` · ${n??``}`),O(s,y(J).body||P.noBody)},[()=>P.ru(ae(y(J).charge)),()=>se(y(J).milliseconds)]),D(e,t)};l(N,e=>{y(J)&&e(ie)}),T(()=>{O(p,P.name),h.disabled=!k.write}),i(h,()=>y(V),e=>u(V,e)),D(e,t)},Ze=e=>{var t=De(),n=A(t),r=m(n),i=M(r,!0);c(n);var a=g(n),o=e=>{ce(e,{get failure(){return y(G)}})};l(a,e=>{y(G)&&e(o)}),T(()=>O(i,P.chooseAScriptOrBegin)),D(e,t)};l(Ye,e=>{y(H)||y(B)?e(Xe):e(Ze,-1)}),c(Je),c(ze),T(e=>O(Ve,e),[()=>P.scriptsOf(I)]),D(v,ze),e()}v([`click`]);export{P as default};