import"./disclose-version-xihTtKlq.js";import{A as e,At as t,B as n,F as r,Ft as i,I as a,J as o,L as s,Nt as c,St as l,Tt as u,V as d,X as ee,Y as te,Z as f,_t as p,a as m,bt as h,c as g,ct as _,et as v,g as ne,gt as y,j as b,kt as re,l as x,mt as S,n as C,pt as w,rt as T,st as E,tt as D,u as O,ut as k,vt as A,xt as j,yt as M}from"./api.svelte-xsy0VhGO.js";import{C as N,S as ie,_ as ae,d as oe,f as se,t as ce,y as le}from"./index-DYF0ij8C.js";import{t as ue}from"./Editor-30XCJIgs.js";import{t as de}from"./Tablist-DdBwUi6m.js";var fe=T(`<li><button class="link"> </button></li>`),pe=T(`<li class="quiet small"> </li>`),me=T(`<button class="small"> </button>`),he=T(`<p class="small row wrap"> <!><button class="small"> </button></p>`),ge=T(`<option> </option>`),_e=T(`<label> <select><option>Pre</option><option>Post</option></select></label><label> <select></select></label>`,1),ve=T(`<button class="danger"> </button>`),ye=T(`<button class="primary"> </button><!>`,1),be=T(`<li><code> </code> </li>`),xe=T(`<ul class="small"></ul>`),Se=T(`<p role="status"><span class="ru big"> </span> </p> <!>`,1),Ce=T(`<div class="row wrap"><label> <input class="mono"/></label><label class="grow"> <input class="mono"/></label><button class="primary"> </button></div> <details><summary> </summary> <div class="row wrap"><label class="grow"> <input class="mono"/></label><button> </button><button> </button></div> <!></details>`,1),we=T(`<h3> </h3><pre> </pre>`,1),Te=T(`<section role="status"><p><span class="ru big"> </span> </p><pre> </pre><!></section>`),Ee=T(`<div class="row wrap"><label class="grow"> <input/></label> <!> <!></div> <!> <!> <!> <!>`,1),De=T(`<div class="empty"><p> </p></div><!>`,1),Oe=T(`<div class="page scripts"><h1 class="visually-hidden"> </h1> <div class="side-list"><div class="tabs"><!></div> <ul></ul> <!></div> <div class="script"><!></div></div>`);function P(T,E){t(E,!0);let P=e.scripts,ke=le(),{database:F,container:I}=ke.place,L={sprocs:P.procedures,triggers:P.triggers,udfs:P.functions},Ae={sprocs:`StoredProcedures`,triggers:P.triggers,udfs:`UserDefinedFunctions`},je={sprocs:{counter:`function counter(id, by) {
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
`}},R=l(`sprocs`),z=h({sprocs:[],triggers:[],udfs:[]}),B=l(void 0),V=l(``),H=l(``),U=l(`Pre`),W=l(`All`),G=l(void 0),Me=l(``),K=l(h([])),q=l(`[]`),J=l(void 0),Y=l([]),X=u(()=>`${m(F,I)}/${k(R)}`);S(()=>ke.unsaved(O.write&&k(H)!==(k(B)?.body??``)&&k(H)!==``)),b(async()=>{N(F,I).then(e=>{j(K,e.partitionKey.paths,!0)},()=>void 0),await Fe();let e=ke.place.rest.get(`new`);e&&e in L&&(j(R,e,!0),$(void 0,`function name() {
}
`))});let Ne=l(`SELECT * FROM c`),Z=l(void 0),Q=l(!1);async function Pe(){if(!k(B))return;j(G,j(J,void 0),!0),j(Q,!1);let e=null;j(Z,{partitions:0,succeeded:0,charge:0,milliseconds:0,failures:[],going:!0},!0);try{do{let t={"x-armilla-for-each-partition":`true`,...e?{"x-ms-continuation":e}:{}},n=await C(`${k(X)}/${g(k(B).id)}`,{method:`POST`,headers:t,body:`{"query":${JSON.stringify(k(Ne))},"arguments":${k(q)||`[]`}}`,what:P.executeForEach(k(B).id)}),r=JSON.parse(n.text);j(Z,{partitions:k(Z).partitions+r.partitions,succeeded:k(Z).succeeded+r.succeeded,charge:k(Z).charge+n.charge,milliseconds:k(Z).milliseconds+n.milliseconds,failures:[...k(Z).failures,...r.failures].slice(0,1e3),going:!0},!0),e=n.headers.get(`x-ms-continuation`)}while(e&&!k(Q))}catch(e){j(G,x(e),!0)}j(Z,{...k(Z),going:!1},!0)}async function Fe(){try{for(let e of Object.keys(L)){let t=await C(`${m(F,I)}/${e}`,{quiet:!0});z[e]=(JSON.parse(t.text)[Ae[e]]??[]).sort((e,t)=>e.id.localeCompare(t.id))}ie.scripts={of:`${F}/${I}`,count:Object.values(z).reduce((e,t)=>e+t.length,0)}}catch(e){j(G,x(e),!0)}}function $(e,t=``){j(B,e,!0),j(V,e?.id??``,!0),j(H,e?.body??t,!0),j(U,e?.triggerType??`Pre`,!0),j(W,e?.triggerOperation??`All`,!0),j(G,j(J,void 0),!0),j(Y,[])}async function Ie(){j(G,void 0);let e=JSON.stringify({id:k(V),body:k(H),...k(R)===`triggers`?{triggerType:k(U),triggerOperation:k(W)}:{}});try{k(B)?await C(`${k(X)}/${g(k(B).id)}`,{method:`PUT`,headers:{"if-match":k(B)._etag},body:e,what:P.save(k(V))}):await C(k(X),{method:`POST`,body:e,what:P.create(k(V))});let t=k(V);await Fe(),j(B,z[k(R)].find(e=>e.id===t),!0)}catch(e){j(G,x(e),!0)}}async function Le(){if(k(B)&&confirm(P.deleteIt(k(B).id)))try{await C(`${k(X)}/${g(k(B).id)}`,{method:`DELETE`,headers:{"if-match":k(B)._etag}}),$(void 0),await Fe()}catch(e){j(G,x(e),!0)}}async function Re(){if(k(B)){j(G,j(J,void 0),!0),j(Y,[]);try{let e=await C(`${k(X)}/${g(k(B).id)}`,{method:`POST`,headers:{"x-ms-documentdb-partitionkey":ne(oe(k(Me))),"x-ms-documentdb-script-enable-logging":`true`},body:k(q),what:P.execute(k(B).id)});j(J,{body:e.text,log:decodeURIComponent(e.headers.get(`x-ms-documentdb-script-log-results`)??``),charge:e.charge,milliseconds:e.milliseconds},!0)}catch(e){j(G,x(e),!0);let t=Number(/(?:<anonymous>|\.js|\bline)[: ](\d+)/i.exec(k(G).message)?.[1]??/:(\d+)(?::\d+)?\)?/.exec(k(G).message)?.[1]??0),n=k(H).split(`
`);if(t>0&&t<=n.length){let e=n.slice(0,t-1).join(`
`).length+ +(t>1);j(Y,[{from:e,to:e+n[t-1].length,severity:`error`,message:k(G).message.slice(0,300)}])}}}}var ze=Oe(),Be=y(ze),Ve=A(Be,!0),He=M(Be,2),Ue=y(He),We=y(Ue);{let e=u(()=>Object.keys(L).map(e=>[e,`${L[e]} ${z[e].length}`]));de(We,{get label(){return P.kindsOfScripts},get tabs(){return k(e)},get value(){return k(R)},onchange:e=>{e!==k(R)&&(j(R,e,!0),$(void 0))}})}c(Ue);var Ge=M(Ue,2);o(Ge,21,()=>z[k(R)],e=>e.id,(e,t)=>{var n=fe(),r=y(n),i=A(r,!0);c(n),w(()=>{s(r,`aria-current`,k(B)?.id===k(t).id?`true`:void 0),v(i,k(t).id)}),_(`click`,r,()=>$(k(t))),D(e,n)},e=>{var t=pe(),n=A(t,!0);w(()=>v(n,P.noneYet)),D(e,t)}),c(Ge);var Ke=M(Ge,2),qe=e=>{var t=he(),n=y(t),r=M(n);o(r,17,()=>Object.entries(je[k(R)]),([e,t])=>e,(e,t)=>{var n=u(()=>i(k(t),2));let r=()=>k(n)[0],a=()=>k(n)[1];var o=me(),s=A(o,!0);w(()=>v(s,r())),_(`click`,o,()=>$(void 0,a())),D(e,o)});var a=M(r),s=A(a,!0);c(t),w(()=>{v(n,`${P.newFrom??``} `),v(s,P.nothing)}),_(`click`,a,()=>$(void 0,`function name() {
}
`)),D(e,t)};f(Ke,e=>{O.write&&e(qe)}),c(He);var Je=M(He,2),Ye=y(Je),Xe=e=>{var t=Ee(),i=p(t),l=y(i),m=y(l,!0),h=M(m);a(h),c(l);var g=M(l,2),ne=e=>{var t=_e(),r=p(t),i=y(r,!0),a=M(i);d(a),c(r);var s=M(r),l=y(s,!0),u=M(l);o(u,20,()=>[`All`,`Create`,`Replace`,`Delete`,`Update`],e=>e,(e,t)=>{var n=ge(),r=A(n,!0),i={};w(()=>{v(r,t),i!==(i=t)&&(n.__value=i)}),D(e,n)}),c(u),d(u),c(s),w(()=>{v(i,P.when),v(l,P.on)}),n(a,()=>k(U),e=>j(U,e)),n(u,()=>k(W),e=>j(W,e)),D(e,t)};f(g,e=>{k(R)===`triggers`&&e(ne)});var b=M(g,2),re=e=>{var t=ye(),n=p(t),r=A(n,!0),i=M(n),a=e=>{var t=ve(),n=A(t,!0);w(()=>v(n,P.deleteIt2)),_(`click`,t,Le),D(e,t)};f(i,e=>{k(B)&&e(a)}),w(()=>{n.disabled=!k(V),v(r,P.save2)}),_(`click`,n,Ie),D(e,t)};f(b,e=>{O.write&&e(re)}),c(i);var x=M(i,2);ee(x,()=>`${k(R)}/${k(B)?.id??``}`,e=>{{let t=u(()=>!O.write);ue(e,{kind:`javascript`,get label(){return P.sourceOfTheScript},get marks(){return k(Y)},get readonly(){return k(t)},onsave:Ie,onrun:Re,get value(){return k(H)},set value(e){j(H,e,!0)}})}});var S=M(x,2),C=e=>{var t=Ce(),n=p(t),i=y(n),l=y(i,!0),u=M(l);a(u),c(i);var d=M(i),ee=y(d,!0),m=M(ee);a(m),c(d);var h=M(d),g=A(h,!0);c(n);var ne=M(n,2),b=y(ne),re=A(b,!0),x=M(b,2),S=y(x),C=y(S,!0),T=M(C);a(T),c(S);var E=M(S),O=A(E,!0),N=M(E),ie=A(N,!0);c(x);var oe=M(x,2),ce=e=>{var t=Se(),n=p(t),r=y(n),i=A(r,!0),a=M(r);c(n);var s=M(n,2),l=e=>{var t=xe();o(t,21,()=>k(Z).failures.slice(0,50),te,(e,t)=>{var n=be(),r=y(n),i=A(r,!0),a=M(r);c(n),w(e=>{v(i,e),v(a,` ${k(t).status??``??``} ${k(t).message??``??``}`)},[()=>JSON.stringify(k(t).partitionKey)]),D(e,n)}),c(t),D(e,t)};f(s,e=>{k(Z).failures.length&&e(l)}),w((e,t)=>{v(i,e),v(a,` ${t??``}`)},[()=>P.ru(ae(k(Z).charge)),()=>P.ofPartitionsFailed(se(k(Z).milliseconds),k(Z).succeeded,k(Z).partitions,k(Z).going,k(Q),k(Z).failures.length)]),D(e,t)};f(oe,e=>{k(Z)&&e(ce)}),c(ne),w(e=>{v(l,P.partitionKey),s(u,`placeholder`,e),v(ee,P.arguments),v(g,P.run),v(re,P.runInEveryPartitionThat),v(C,P.query),E.disabled=k(Z)?.going,v(O,P.runForEach),N.disabled=!k(Z)?.going,v(ie,P.stop)},[()=>k(K).length>1?`["${k(K).join(`", "`)}"]`:k(K)[0]??``]),r(u,()=>k(Me),e=>j(Me,e)),r(m,()=>k(q),e=>j(q,e)),_(`click`,h,Re),r(T,()=>k(Ne),e=>j(Ne,e)),_(`click`,E,Pe),_(`click`,N,()=>j(Q,!0)),D(e,t)};f(S,e=>{k(R)===`sprocs`&&k(B)&&O.write&&e(C)});var T=M(S,2),E=e=>{ce(e,{get failure(){return k(G)}})};f(T,e=>{k(G)&&e(E)});var N=M(T,2),ie=e=>{var t=Te(),n=y(t),r=y(n),i=A(r,!0),a=M(r);c(n);var o=M(n),l=A(o,!0),u=M(o),d=e=>{var t=we(),n=p(t),r=A(n,!0),i=M(n),a=A(i,!0);w(()=>{v(r,P.consoleLog),v(a,k(J).log)}),D(e,t)};f(u,e=>{k(J).log&&e(d)}),c(t),w((e,n)=>{s(t,`aria-label`,P.result),v(i,e),v(a,` · ${n??``}`),v(l,k(J).body||P.noBody)},[()=>P.ru(ae(k(J).charge)),()=>se(k(J).milliseconds)]),D(e,t)};f(N,e=>{k(J)&&e(ie)}),w(()=>{v(m,P.name),h.disabled=!O.write}),r(h,()=>k(V),e=>j(V,e)),D(e,t)},Ze=e=>{var t=De(),n=p(t),r=y(n),i=A(r,!0);c(n);var a=M(n),o=e=>{ce(e,{get failure(){return k(G)}})};f(a,e=>{k(G)&&e(o)}),w(()=>v(i,P.chooseAScriptOrBegin)),D(e,t)};f(Ye,e=>{k(H)||k(B)?e(Xe):e(Ze,-1)}),c(Je),c(ze),w(e=>v(Ve,e),[()=>P.scriptsOf(I)]),D(T,ze),re()}E([`click`]);export{P as default};