import{S as e,d as t,g as n,t as r,u as i,v as a,x as o}from"./index-DEbnNvsh.js";import{$ as s,A as c,B as l,F as u,I as ee,J as te,Mt as d,Ot as f,P as p,Pt as m,X as h,Y as g,_t as _,a as v,bt as y,c as b,et as x,ft as S,g as C,gt as w,ht as T,kt as E,l as D,lt as O,n as k,nt as A,ot as ne,pt as re,q as j,st as M,u as N,vt as P,wt as F,xt as I,yt as ie,z as ae}from"./api.svelte-C7kn8vxT.js";import{t as oe}from"./Editor-DffmWPYv.js";import{t as se}from"./Tablist-zrkCpt1G.js";var ce=A(`<li><button class="link"> </button></li>`),le=A(`<li class="quiet small">none yet</li>`),ue=A(`<button class="small"> </button>`),de=A(`<p class="small row wrap">New from <!><button class="small">nothing</button></p>`),fe=A(`<option> </option>`),pe=A(`<label>When<select><option>Pre</option><option>Post</option></select></label><label>On<select></select></label>`,1),me=A(`<button class="danger">Delete</button>`),he=A(`<button class="primary">Save</button><!>`,1),ge=A(`<li><code> </code> </li>`),_e=A(`<ul class="small"></ul>`),ve=A(`<p role="status"><span class="ru big"> </span> </p> <!>`,1),ye=A(`<div class="row wrap"><label>Partition key<input class="mono"/></label><label class="grow">Arguments<input class="mono"/></label><button class="primary">Run</button></div> <details><summary>Run in every partition that a query finds</summary> <div class="row wrap"><label class="grow">Query<input class="mono"/></label><button>Run for each</button><button>Stop</button></div> <!></details>`,1),be=A(`<h3>console.log</h3><pre> </pre>`,1),xe=A(`<section aria-label="Result" role="status"><p><span class="ru big"> </span> </p><pre> </pre><!></section>`),Se=A(`<div class="row wrap"><label class="grow">Name<input/></label> <!> <!></div> <!> <!> <!> <!>`,1),Ce=A(`<div class="empty"><p>Choose a script, or begin one from a template.</p></div><!>`,1),we=A(`<div class="page scripts"><h1 class="visually-hidden"> </h1> <div class="side-list"><div class="tabs"><!></div> <ul></ul> <!></div> <div class="script"><!></div></div>`);function L(A,ne){E(ne,!0);let L=a(),{database:Te,container:R}=L.place,Ee={sprocs:`Procedures`,triggers:`Triggers`,udfs:`Functions`},De={sprocs:`StoredProcedures`,triggers:`Triggers`,udfs:`UserDefinedFunctions`},Oe={sprocs:{counter:`function counter(id, by) {
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
`}},z=I(`sprocs`),B=ie({sprocs:[],triggers:[],udfs:[]}),V=I(void 0),H=I(``),U=I(``),W=I(`Pre`),G=I(`All`),K=I(void 0),ke=I(``),q=I(ie([])),J=I(`[]`),Y=I(void 0),X=I([]),Z=F(()=>`${v(Te,R)}/${O(z)}`);re(()=>L.unsaved(N.write&&O(U)!==(O(V)?.body??``)&&O(U)!==``)),c(async()=>{e(Te,R).then(e=>{y(q,e.partitionKey.paths,!0)},()=>void 0),await Ne();let t=L.place.rest.get(`new`);t&&t in Ee&&(y(z,t,!0),$(void 0,`function name() {
}
`))});let Ae=I(`SELECT * FROM c`),Q=I(void 0),je=I(!1);async function Me(){if(!O(V))return;y(K,y(Y,void 0),!0),y(je,!1);let e=null;y(Q,{partitions:0,succeeded:0,charge:0,milliseconds:0,failures:[],going:!0},!0);try{do{let t={"x-armilla-for-each-partition":`true`,...e?{"x-ms-continuation":e}:{}},n=await k(`${O(Z)}/${b(O(V).id)}`,{method:`POST`,headers:t,body:`{"query":${JSON.stringify(O(Ae))},"arguments":${O(J)||`[]`}}`,what:`execute ${O(V).id} for each`}),r=JSON.parse(n.text);y(Q,{partitions:O(Q).partitions+r.partitions,succeeded:O(Q).succeeded+r.succeeded,charge:O(Q).charge+n.charge,milliseconds:O(Q).milliseconds+n.milliseconds,failures:[...O(Q).failures,...r.failures].slice(0,1e3),going:!0},!0),e=n.headers.get(`x-ms-continuation`)}while(e&&!O(je))}catch(e){y(K,D(e),!0)}y(Q,{...O(Q),going:!1},!0)}async function Ne(){try{for(let e of Object.keys(Ee)){let t=await k(`${v(Te,R)}/${e}`,{quiet:!0});B[e]=(JSON.parse(t.text)[De[e]]??[]).sort((e,t)=>e.id.localeCompare(t.id))}o.scripts={of:`${Te}/${R}`,count:Object.values(B).reduce((e,t)=>e+t.length,0)}}catch(e){y(K,D(e),!0)}}function $(e,t=``){y(V,e,!0),y(H,e?.id??``,!0),y(U,e?.body??t,!0),y(W,e?.triggerType??`Pre`,!0),y(G,e?.triggerOperation??`All`,!0),y(K,y(Y,void 0),!0),y(X,[])}async function Pe(){y(K,void 0);let e=JSON.stringify({id:O(H),body:O(U),...O(z)===`triggers`?{triggerType:O(W),triggerOperation:O(G)}:{}});try{O(V)?await k(`${O(Z)}/${b(O(V).id)}`,{method:`PUT`,headers:{"if-match":O(V)._etag},body:e,what:`save ${O(H)}`}):await k(O(Z),{method:`POST`,body:e,what:`create ${O(H)}`});let t=O(H);await Ne(),y(V,B[O(z)].find(e=>e.id===t),!0)}catch(e){y(K,D(e),!0)}}async function Fe(){if(O(V)&&confirm(`Delete ${O(V).id}?`))try{await k(`${O(Z)}/${b(O(V).id)}`,{method:`DELETE`,headers:{"if-match":O(V)._etag}}),$(void 0),await Ne()}catch(e){y(K,D(e),!0)}}async function Ie(){if(O(V)){y(K,y(Y,void 0),!0),y(X,[]);try{let e=await k(`${O(Z)}/${b(O(V).id)}`,{method:`POST`,headers:{"x-ms-documentdb-partitionkey":C(i(O(ke))),"x-ms-documentdb-script-enable-logging":`true`},body:O(J),what:`execute ${O(V).id}`});y(Y,{body:e.text,log:decodeURIComponent(e.headers.get(`x-ms-documentdb-script-log-results`)??``),charge:e.charge,milliseconds:e.milliseconds},!0)}catch(e){y(K,D(e),!0);let t=Number(/(?:<anonymous>|\.js|\bline)[: ](\d+)/i.exec(O(K).message)?.[1]??/:(\d+)(?::\d+)?\)?/.exec(O(K).message)?.[1]??0),n=O(U).split(`
`);if(t>0&&t<=n.length){let e=n.slice(0,t-1).join(`
`).length+ +(t>1);y(X,[{from:e,to:e+n[t-1].length,severity:`error`,message:O(K).message.slice(0,300)}])}}}}var Le=we(),Re=T(Le),ze=_(Re),Be=P(Re,2),Ve=T(Be),He=T(Ve);{let e=F(()=>Object.keys(Ee).map(e=>[e,`${Ee[e]} ${B[e].length}`]));se(He,{label:`Kinds of scripts`,get tabs(){return O(e)},get value(){return O(z)},onchange:e=>{e!==O(z)&&(y(z,e,!0),$(void 0))}})}d(Ve);var Ue=P(Ve,2);j(Ue,21,()=>B[O(z)],e=>e.id,(e,t)=>{var n=ce(),r=T(n),i=_(r,!0);d(n),S(()=>{ee(r,`aria-current`,O(V)?.id===O(t).id?`true`:void 0),s(i,O(t).id)}),M(`click`,r,()=>$(O(t))),x(e,n)},e=>{var t=le();x(e,t)}),d(Ue);var We=P(Ue,2),Ge=e=>{var t=de(),n=P(T(t));j(n,17,()=>Object.entries(Oe[O(z)]),([e,t])=>e,(e,t)=>{var n=F(()=>m(O(t),2));let r=()=>O(n)[0],i=()=>O(n)[1];var a=ue(),o=_(a,!0);S(()=>s(o,r())),M(`click`,a,()=>$(void 0,i())),x(e,a)});var r=P(n);d(t),M(`click`,r,()=>$(void 0,`function name() {
}
`)),x(e,t)};h(We,e=>{N.write&&e(Ge)}),d(Be);var Ke=P(Be,2),qe=T(Ke),Je=e=>{var i=Se(),a=w(i),o=T(a),c=P(T(o));u(c),d(o);var f=P(o,2),m=e=>{var t=pe(),n=w(t),r=P(T(n));l(r),d(n);var i=P(n),a=P(T(i));j(a,20,()=>[`All`,`Create`,`Replace`,`Delete`,`Update`],e=>e,(e,t)=>{var n=fe(),r=_(n,!0),i={};S(()=>{s(r,t),i!==(i=t)&&(n.__value=i)}),x(e,n)}),d(a),l(a),d(i),ae(r,()=>O(W),e=>y(W,e)),ae(a,()=>O(G),e=>y(G,e)),x(e,t)};h(f,e=>{O(z)===`triggers`&&e(m)});var v=P(f,2),b=e=>{var t=he(),n=w(t),r=P(n),i=e=>{var t=me();M(`click`,t,Fe),x(e,t)};h(r,e=>{O(V)&&e(i)}),S(()=>n.disabled=!O(H)),M(`click`,n,Pe),x(e,t)};h(v,e=>{N.write&&e(b)}),d(a);var C=P(a,2);g(C,()=>`${O(z)}/${O(V)?.id??``}`,e=>{{let t=F(()=>!N.write);oe(e,{kind:`javascript`,label:`Source of the script`,get marks(){return O(X)},get readonly(){return O(t)},onsave:Pe,onrun:Ie,get value(){return O(U)},set value(e){y(U,e,!0)}})}});var E=P(C,2),D=e=>{var r=ye(),i=w(r),a=T(i),o=P(T(a));u(o),d(a);var c=P(a),l=P(T(c));u(l),d(c);var f=P(c);d(i);var m=P(i,2),g=P(T(m),2),v=T(g),b=P(T(v));u(b),d(v);var C=P(v),E=P(C);d(g);var D=P(g,2),k=e=>{var r=ve(),i=w(r),a=T(i),o=_(a),c=P(a);d(i);var l=P(i,2),u=e=>{var t=_e();j(t,21,()=>O(Q).failures.slice(0,50),te,(e,t)=>{var n=ge(),r=T(n),i=_(r,!0),a=P(r);d(n),S(e=>{s(i,e),s(a,` ${O(t).status??``??``} ${O(t).message??``??``}`)},[()=>JSON.stringify(O(t).partitionKey)]),x(e,n)}),d(t),x(e,t)};h(l,e=>{O(Q).failures.length&&e(u)}),S((e,t)=>{s(o,`${e??``} RU`),s(c,` · ${t??``} · ${O(Q).succeeded??``} of ${O(Q).partitions??``} partitions${O(Q).going?` so far`:O(je)?`, stopped`:``}${O(Q).failures.length?` · ${O(Q).failures.length} failed`:``}`)},[()=>n(O(Q).charge),()=>t(O(Q).milliseconds)]),x(e,r)};h(D,e=>{O(Q)&&e(k)}),d(m),S(e=>{ee(o,`placeholder`,e),C.disabled=O(Q)?.going,E.disabled=!O(Q)?.going},[()=>O(q).length>1?`["${O(q).join(`", "`)}"]`:O(q)[0]??``]),p(o,()=>O(ke),e=>y(ke,e)),p(l,()=>O(J),e=>y(J,e)),M(`click`,f,Ie),p(b,()=>O(Ae),e=>y(Ae,e)),M(`click`,C,Me),M(`click`,E,()=>y(je,!0)),x(e,r)};h(E,e=>{O(z)===`sprocs`&&O(V)&&N.write&&e(D)});var k=P(E,2),A=e=>{r(e,{get failure(){return O(K)}})};h(k,e=>{O(K)&&e(A)});var ne=P(k,2),re=e=>{var r=xe(),i=T(r),a=T(i),o=_(a),c=P(a);d(i);var l=P(i),u=_(l,!0),ee=P(l),te=e=>{var t=be(),n=P(w(t)),r=_(n,!0);S(()=>s(r,O(Y).log)),x(e,t)};h(ee,e=>{O(Y).log&&e(te)}),d(r),S((e,t)=>{s(o,`${e??``} RU`),s(c,` · ${t??``}`),s(u,O(Y).body||`(no body)`)},[()=>n(O(Y).charge),()=>t(O(Y).milliseconds)]),x(e,r)};h(ne,e=>{O(Y)&&e(re)}),S(()=>c.disabled=!N.write),p(c,()=>O(H),e=>y(H,e)),x(e,i)},Ye=e=>{var t=Ce(),n=P(w(t)),i=e=>{r(e,{get failure(){return O(K)}})};h(n,e=>{O(K)&&e(i)}),x(e,t)};h(qe,e=>{O(U)||O(V)?e(Je):e(Ye,-1)}),d(Ke),d(Le),S(()=>s(ze,`Scripts of ${R??``}`)),x(A,Le),f()}ne([`click`]);export{L as default};