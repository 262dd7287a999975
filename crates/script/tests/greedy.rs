//! Every kind of value, made until memory runs out, under many different limits: wherever the limit
//! strikes, the call ends with "out of memory" (or an error of the script) and the process lives.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "support/model.rs"]
mod model;
#[path = "support/query.rs"]
mod query;

use std::time::Duration;

use armilla_script::{CallOptions, Limits, ScriptEngine, ScriptErrorKind, ScriptKind};
use model::{Container, Transaction};
use serde_json::json;

const GREEDY: &[&str] = &[
    "var a=[]; for(;;) a.push({x:a.length,y:'s'+a.length})",
    "var k=[]; for(;;) k.push(class A extends Array { #p=1; static x=2; get g(){return this.#p} m(){ return super.concat } })",
    "var a=[]; async function f(x){ await null; a.push([x]); await f(x+1) } for(;;) a.push(f(1))",
    "var a=[]; function* g(){ var x=[]; for(;;) { x.push(new Array(10)); yield x } } for(;;) { var it=g(); it.next(); it.next(); a.push(it) }",
    "var a=[]; async function* g(){ for(;;) { yield new Array(50).fill(1); await null } } for(;;) { var it=g(); a.push(it.next(), it.next()) }",
    "var s='[1,2,{\"a\":[3,4,\"x\"]}]', a=[]; for(;;) { a.push(JSON.parse(s)); a.push(JSON.stringify(a.slice(-5))) }",
    "JSON.parse('['+'{},'.repeat(2000000)+'1]')",
    "JSON.parse('['+('['+'{},'.repeat(200)+'1],').repeat(9000)+'1]')",
    "var a=[]; for(;;) { a.push('abcabc'.match(/(a)(?<n>b)(c)/g)); a.push(/(?<y>\\d+)-(?<m>\\d+)/d.exec('2020-12')); a.push('x,y,z'.split(/,/)); a.push(new RegExp('a'+a.length)) }",
    "var m=new Map(), s=new Set(), w=new WeakMap(); for(var i=0;;i++) { var o={i}; m.set(o,i); s.add('k'+i); w.set(o,[i]) }",
    "var a=[]; for(;;) { a.push(new Float64Array(20).map(x=>x+1)); a.push(new DataView(new ArrayBuffer(16))); a.push(Uint8Array.from([1,2,3]).subarray(1)) }",
    "var a=[]; for(;;) { var p=new Proxy({}, {get(t,k){return k}, ownKeys(){return ['a','b']}, getOwnPropertyDescriptor(){return {value:1,configurable:true,enumerable:true}}}); a.push(Object.keys(p)); a.push({...p}) }",
    "var a=[],x=1n; for(;;) { x=x*3n; a.push(x, x.toString(), BigInt.asUintN(64,x)) }",
    "var a=[], s=''; for(;;) { s+='ab\\u1234'; a.push(s.slice(1).toUpperCase().padStart(40).normalize()); a.push(s.replace(/a/g,'xx')); if (s.length>500) s='' }",
    "var f=null; for(;;) { let g=f, x=[1]; f=()=>[g,x,f] }",
    "var a=[]; for(;;) { try { null.x } catch(e) { a.push(e, e.stack) } try { throw new AggregateError([1,2],'m',{cause:a}) } catch(e) { a.push(e) } }",
    "var a=[]; for(;;) { var {x,y:{z=[1,2]}={},...r}={x:1,q:2,w:[3]}; var [p,...q]=[1,2,3]; a.push(x,z,r,p,q); a.push(Math.max(...[1,2,3])) }",
    "var a=[]; for(;;) { a.push(Promise.all([1,Promise.resolve(2)]).then(x=>{a.push(x); throw x}).catch(e=>a.push(e)).finally(()=>a.push(1))) }",
    "var o={}; for(var i=0;;i++) { Object.defineProperty(o,'p'+i,{get(){return i},configurable:true}); o['q'+i]=i; delete o['q'+(i-1)]; Object.freeze({a:i}) }",
    "var a=[]; function f(){ a.push(arguments); return ()=>arguments } for(;;) { a.push(f(1,2,3)); a.push(f.bind(null,1)); a.push(f.apply(null,[1,2])) }",
    "var a=[]; for(;;) { for (const [k,v] of new Map([[1,2],[3,4]])) a.push(k,v); for (var k in {a:1,b:2}) a.push(k); a.push(Object.entries({x:1}), Array.from('abc'), [1,[2,[3]]].flat(9)) }",
    "var a=[]; for(;;) { a.push(new Date().toISOString(), new Date(2020,1,1).toString(), new Date('2020-01-01').toLocaleString()) }",
    "var a=[]; for(;;) { var b=[]; for (var i=0;i<50;i++) b.push('k'+(i*7919%50)); a.push(b.sort(), b.toSorted((x,y)=>x<y?1:-1), b.reverse().concat(b)) }",
    "var a={}; for(;;) { a[Symbol('x')]=1; a[Symbol.for('y'+Object.getOwnPropertySymbols(a).length)]=2 }",
    "var a=[]; for(;;) { with({x:[1]}) { a.push(function(){return x}); label: for(;;) { try { break label } finally { a.push(2) } } } }",
    "var a=[]; function f(n) { try { a.push(new Array(n)); f(n+1) } catch(e) { try { a.push(e) } catch(e2) { a.length=0; } } } for(;;) f(1)",
    "var a=[]; for(;;) { try { for(;;) a.push(new Array(20000).fill(0)) } catch(e) { } }",
    "var s='x'.repeat(100000), a=[]; for(;;) { a.push((s+a.length).split('')); }",
    "var s='x'.repeat(100000), a=[]; for(;;) { a.push((s+a.length).replace(/x/g, '<$&$&>')); }",
    "var s='x'.repeat(100000), a=[]; for(;;) { a.push([...(s+a.length)]); a.push(Object.fromEntries(Object.entries(s.slice(0,9000)))); }",
    "var a=[]; for(var i=0;;i++) { var b=new ArrayBuffer(100000); a.push(b, b.slice(1), new Uint8Array(b).toReversed(), new Float32Array(5000).sort()) }",
    "var m=new Map(); for(var i=0;;i++) m.set('key'+i, new Set([i,'v'+i]))",
    "var o={}; for(var i=0;;i++) o['key'+i]=o['key'+(i-1)]",
    "var a=[]; for(var i=0;;i++) a[i*1000]='sparse'",
    "var a=[]; for(;;) { __.createDocument(__.getSelfLink(), {pk:'a', v:'x'.repeat(20000)}, function(e,d) { a.push(d) }) }",
    "(function more() { __.createDocument(__.getSelfLink(), {pk:'a', v:'x'.repeat(200000)}, function(e,d) { if (e) throw e; more(); }); })()",
    "var a=[]; (function more() { a.push('x'.repeat(50000)+a.length); __.readDocuments(__.getSelfLink(), more); })()",
    "for(;;) console.log('x'.repeat(1000))",
    "for(;;) __.response.appendBody('x'.repeat(1000))",
];

#[test]
fn out_of_memory_is_survived_wherever_it_strikes() {
    // More rounds for a long look: GREEDY_ROUNDS=200 cargo test --release -p armilla-script greedy
    let rounds =
        std::env::var("GREEDY_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    for round in 0..rounds {
        let limits = Limits {
            time: Duration::from_millis(300),
            accept_time: Duration::from_millis(300),
            memory_bytes_max: 50_000 + round * 397_113,
            stops_before_block: u32::MAX,
            ..Limits::default()
        };
        let engine = ScriptEngine::new(limits).unwrap();
        for text in GREEDY {
            let body = format!("function () {{ {text} }}");
            let script = engine.compile(ScriptKind::Procedure, &body).unwrap();
            let mut transaction = Transaction::begin(&Container::new("/pk"), Some(json!("a")));
            let options = CallOptions { logging: true, ..CallOptions::default() };
            let outcome = engine.run_procedure(&script, "[]", &mut transaction, options);
            let kind = outcome.result.err().map(|error| error.kind);
            assert_ne!(kind, Some(ScriptErrorKind::Internal), "{text}");
        }
    }
}
