//! Every built-in function of the engine in the form that takes it longest, one call each: none may keep a
//! script much longer than its time.
//!
//! What makes a call long is found by multiplication: a few megabytes of text that thousands of array
//! elements share, structure that doubles with every level, lengths that lie, iterators without an end.
//! `BUILTINS_VERBOSE=1` prints how late each one was, `BUILTINS_ONLY=7` runs one of them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests may unwrap and print")]

#[path = "support/model.rs"]
mod model;
#[path = "support/query.rs"]
mod query;

use armilla_script::{CallOptions, Limits, ScriptEngine, ScriptKind};
use model::{Container, Transaction};
use serde_json::json;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_millis(50);
/// A test machine may be busy, and engines of dev builds are slow: a second there is a fifth of one in
/// earnest. Without their guards most of these take minutes, or years.
const LATE_MAX: Duration = Duration::from_secs(5);

/// What steps begin with that name one of these.
const PRELUDE: &[(&str, &str)] = &[
    ("tree", "var tree = []; for (var i = 0; i < 40; i++) tree = [tree, tree];"),
    ("twins", "var twins = {}; for (var i = 0; i < 40; i++) twins = { a: twins, b: twins };"),
    ("left", "var left = 'a'.repeat(4e6) + 'b';"),
    ("right", "var right = 'a'.repeat(4e6) + 'c';"),
    ("many(", "function many(value, count) { return new Array(count || 100000).fill(value); }"),
    (
        "endless",
        "function endless() { return Array.prototype.values.call({ length: 2 ** 53 - 1 }); }",
    ),
    ("wide", "var wide = { length: 2 ** 53 - 1 };"),
    ("big", "var big = (1n << 500000n) - 1n;"),
    ("largest", "var largest = (1n << 1048000n) - 1n;"),
];

const STEPS: &[&str] = &[
    // Shared structure.
    "JSON.stringify(tree)",
    "JSON.stringify(twins)",
    "JSON.stringify(twins, ['a', 'b'])",
    "JSON.stringify(tree, null, 2)",
    "JSON.stringify({ toJSON() { return tree; } })",
    "__.response.setBody(tree)",
    "__.response.appendBody(tree)",
    "__.createDocument(__.getSelfLink(), twins)",
    "__.createDocument(__.getSelfLink(), { id: 'x', tree })",
    "__.upsertDocument(__.getSelfLink(), { tree })",
    "__.queryDocuments(__.getSelfLink(), { query: 'SELECT 1', parameters: [{ name: '@a', value: tree }] })",
    "__.filter(x => true).flatten(tree)",
    "console.log(tree)",
    "throw tree",
    "throw { number: tree, message: tree }",
    "throw new Error(tree)",
    "getContext().abort(tree)",
    "String(tree)",
    "tree.join()",
    "tree.toString()",
    "tree.toLocaleString()",
    "'' + tree",
    "`${tree}`",
    "tree.flat(Infinity)",
    "[tree].flatMap(x => x.flat(Infinity))",
    "({})[tree]",
    "new Set([tree]).has(String(tree))",
    "Number(tree)",
    "parseInt(tree)",
    "new Date(tree)",
    "Date.parse(tree)",
    "new RegExp(tree)",
    "encodeURIComponent(tree)",
    "escape(tree)",
    "'abc'.indexOf(tree)",
    "'abc'.replace('b', tree)",
    "'abc'.padEnd(10, tree)",
    "'abc'.concat(tree)",
    "Symbol(tree)",
    "Reflect.ownKeys(Object.fromEntries([[tree, 1]]))",
    "isNaN(tree)",
    "new Uint8Array(tree)",
    "BigInt(tree)",
    "String.raw({ raw: tree })",
    "[3, 1].sort(() => Number(tree))",
    "[tree, tree].sort()",
    "[tree, tree].toSorted()",
    "Array.from(tree).join()",
    // Long texts that many elements share.
    "many(left).sort()",
    "[].concat(many(left), many(right)).sort()",
    "[].concat(many(left), many(right)).toSorted()",
    "many(left).indexOf(right)",
    "many(left).lastIndexOf(right)",
    "many(left).includes(right)",
    "many(left).join('')",
    "many(left).toString()",
    "many(left).concat(right).findIndex(x => x === right)",
    "new Set(many(left))",
    "new Set(many({ toString() { return left; } }).map(String))",
    "new Map(many([left, 1]))",
    "Object.fromEntries(many([left, 1]))",
    "Object.groupBy(many(1), () => left)",
    "Map.groupBy(many(1), () => left)",
    "new Set([left]).isSupersetOf(new Set(many(right)))",
    "new Set(many(1).map((v, i) => i)).union({ size: 1, has() {}, keys: () => many(left).values() })",
    "new Set([left]).isSupersetOf({ size: 1, has() {}, keys: () => many(left).values() })",
    "JSON.stringify(many(left))",
    "JSON.stringify(many(1), many(left))",
    "String.prototype.concat.apply('', many(left, 60000))",
    "Math.max.apply(null, many(left, 60000))",
    "isNaN(many(left))",
    "many(left, 60000).map(Number)",
    "Object.assign({}, many(left))",
    "Object.entries(many(left)).flat().join()",
    "many(left).copyWithin(1, 0)",
    "many(left).reverse().includes(right)",
    "Reflect.construct(Set, [many(left)])",
    "String.fromCharCode.apply(null, many(left, 60000))",
    "String.fromCodePoint.apply(null, many('1e5', 60000))",
    "Promise.all(many(left))",
    "left.localeCompare(right)",
    "many(left, 300).map(x => x.localeCompare(right))",
    "many(left, 300).map(x => x.normalize('NFD'))",
    "many(left, 300).map(x => x.toUpperCase())",
    "new WeakSet(many({}))",
    "new Uint8Array(many(left))",
    "Uint8Array.from(many(left))",
    "new Float64Array(10000).set(many(left, 10000))",
    "new Float64Array(10000).fill(left)",
    "many(left).at(-1) === right",
    "Array.prototype.indexOf.call(many(left), right)",
    "Array.prototype.lastIndexOf.call(many(left), right)",
    "Array.prototype.includes.call(Object.assign({ length: 100000 }, many(left)), right)",
    "many(new String(left)).sort()",
    "new Array(50000).fill().map((v, i) => left + i).sort()",
    // Lengths that lie.
    "Array.prototype.indexOf.call(wide, 1)",
    "Array.prototype.lastIndexOf.call(wide, 1)",
    "Array.prototype.includes.call(wide, 1)",
    "Array.prototype.fill.call(wide, 1)",
    "Array.prototype.join.call(wide)",
    "Array.prototype.every.call(wide, isNaN)",
    "Array.prototype.some.call(wide, isFinite)",
    "Array.prototype.find.call(wide, isFinite)",
    "Array.prototype.findLast.call(wide, isFinite)",
    "Array.prototype.map.call(wide, isNaN)",
    "Array.prototype.filter.call(wide, isNaN)",
    "Array.prototype.reduce.call(wide, Math.max)",
    "Array.prototype.reduceRight.call(wide, Math.max, 0)",
    "Array.prototype.slice.call(wide)",
    "Array.prototype.splice.call(wide, 0, 1)",
    "Array.prototype.reverse.call(wide)",
    "Array.prototype.toReversed.call(wide)",
    "Array.prototype.toSorted.call({ length: 2 ** 32 - 1 })",
    "Array.prototype.toSpliced.call({ length: 2 ** 32 - 1 }, 0, 1)",
    "Array.prototype.with.call({ length: 2 ** 32 - 1 }, 0, 1)",
    "Array.prototype.copyWithin.call(wide, 1, 0)",
    "Array.prototype.flat.call(wide)",
    "Array.prototype.concat.call({ length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true })",
    "Array.prototype.push.call({ length: 2 ** 53 - 2 }, 1)",
    "Array.prototype.unshift.call({ length: 2 ** 53 - 2 }, 1)",
    "Array.prototype.shift.call(wide)",
    "Array.prototype.sort.call(wide)",
    "Array.prototype.toLocaleString.call(wide)",
    "Array.from(wide)",
    "Array.from.call(Object, wide)",
    "Array.from.call(function () { return new Proxy({}, {}); }, wide)",
    "Array.from.call(function () { return new Uint8Array(0); }, wide)",
    "Array.from(wide, isNaN)",
    "Array.of.apply(null, { length: 60000 })",
    "Reflect.apply(Math.max, null, wide)",
    "Reflect.construct(Array, wide)",
    "Reflect.ownKeys(new Proxy({}, { ownKeys: () => wide }))",
    "new Uint8Array(wide)",
    "new Uint8Array({ length: 1.6e7 })",
    "Uint8Array.from({ length: 1.6e7 })",
    "Uint8Array.from({ length: 1.6e7 }, isNaN)",
    "new Uint8Array(1).set(wide)",
    "new Uint8Array(1.6e7).set({ length: 1.6e7 })",
    "String.raw({ raw: wide })",
    "JSON.stringify(new Proxy([], { get: (t, k) => k === 'length' ? 2 ** 53 - 1 : 0 }))",
    "JSON.stringify({}, new Proxy([], { get: (t, k) => k === 'length' ? 2 ** 53 - 1 : 0 }))",
    "JSON.stringify([], Object.assign([], { length: 2 ** 32 - 1 }))",
    "var a = []; a.length = 2 ** 32 - 1; a.indexOf(1)",
    "var a = []; a.length = 2 ** 32 - 1; a.lastIndexOf(1)",
    "var a = []; a.length = 2 ** 32 - 1; a.includes(1)",
    "var a = []; a.length = 2 ** 32 - 1; a.fill(1)",
    "var a = []; a.length = 2 ** 32 - 1; a.every(isNaN)",
    "var a = []; a.length = 2 ** 32 - 1; a.reduceRight(Math.max, 0)",
    "var a = []; a.length = 2 ** 32 - 1; a.findLastIndex(isFinite)",
    "var a = []; a.length = 2 ** 32 - 1; a.map(isNaN)",
    "var a = []; a.length = 2 ** 32 - 1; a.toSorted()",
    "var a = []; a.length = 2 ** 32 - 1; a.toReversed()",
    "var a = []; a.length = 2 ** 32 - 1; JSON.stringify(a)",
    "var a = []; a.length = 2 ** 32 - 1; String(a)",
    "var a = []; a.length = 2 ** 32 - 1; [...a]",
    "var a = []; a.length = 2 ** 32 - 1; new Set(a)",
    "var a = []; a.length = 2 ** 32 - 1; Object.freeze(a)",
    "var a = []; a[2 ** 32 - 2] = 1; a.length = 0",
    "var a = []; a[2 ** 32 - 2] = 1; a.pop(); a.shift()",
    "var a = []; a[2 ** 32 - 2] = 1; Object.defineProperty(a, 0, { configurable: false }); a.length = 0",
    // Iterators without an end.
    "new Set(endless())",
    "new Map(endless())",
    "new WeakSet(endless())",
    "Array.from(endless())",
    "[...endless()]",
    "Math.max(...endless())",
    "var [a, ...b] = endless()",
    "Object.fromEntries(endless())",
    "Promise.all(endless())",
    "Promise.race(endless())",
    "Promise.any(endless())",
    "Promise.allSettled(endless())",
    "Array.fromAsync(endless())",
    "endless().drop(2 ** 52).next()",
    "endless().toArray()",
    "endless().every(x => x === undefined)",
    "endless().some(isFinite)",
    "endless().find(isFinite)",
    "endless().reduce(Math.max)",
    "endless().forEach(isNaN)",
    "endless().filter(isFinite).next()",
    "endless().flatMap(() => []).next()",
    "endless().take(Infinity).map(isNaN).drop(2 ** 52).next()",
    "Iterator.from(endless()).drop(2 ** 52).next()",
    "Iterator.concat(endless()).drop(2 ** 52).next()",
    "new Set([undefined]).isSupersetOf({ size: 1, has: isNaN, keys: endless })",
    "new Set([1]).union({ size: 1, has: isNaN, keys: endless })",
    "new Set([1]).symmetricDifference({ size: 1, has: isNaN, keys: endless })",
    "new Set([1]).intersection({ size: 0, has: isNaN, keys: endless })",
    "new Set([1]).difference({ size: 0, has: isNaN, keys: endless })",
    "new Set([1]).isDisjointFrom({ size: 0, has: isNaN, keys: endless })",
    "new Uint8Array({ [Symbol.iterator]: endless })",
    "Uint8Array.from(endless())",
    "Object.groupBy(endless(), isNaN)",
    "Map.groupBy(endless(), isNaN)",
    "new AggregateError(endless())",
    "new Set({ [Symbol.iterator]: endless })",
    "for (var [x] of [[1]]) (function (...y) {})(...endless())",
    "String.raw({ raw: ['', ''] }, ...endless())",
    "var m = new Map([[1, 1]]); new Set({ [Symbol.iterator]: () => m.keys() }); m.forEach((v, k) => { m.delete(k); m.set(k + 1, 1); })",
    // Text.
    "'a'.repeat(1.6e7).split(/b/)",
    "'a'.repeat(3e6).split(/(?:)/u)",
    "'a'.repeat(1.6e7).replace(/a/g, '')",
    "'a'.repeat(1.6e7).match(/a/g)",
    "'a'.repeat(1.6e7).search(/b/)",
    "'a'.repeat(1.6e7).replaceAll('a', '')",
    "'a'.repeat(1.6e7).replaceAll('', 'b')",
    "'a'.repeat(1.6e7).replaceAll('a', '$`')",
    "'a'.repeat(1e6).replace(/a/g, '$`')",
    "'a'.repeat(1e6).replaceAll('a', \"$'\")",
    "'a'.repeat(1.6e7).split('')",
    "[...'a'.repeat(1.6e7)]",
    "Array.from('a'.repeat(1.6e7))",
    "new Set('a'.repeat(1.6e7))",
    "Object.keys('a'.repeat(1.6e7))",
    "Object.entries('a'.repeat(1.6e7))",
    "Object.assign({}, 'a'.repeat(1.6e7))",
    "({ ...'a'.repeat(1.6e7) })",
    "Object.getOwnPropertyDescriptors('a'.repeat(1.6e7))",
    "Reflect.ownKeys(new String('a'.repeat(1.6e7)))",
    "for (var k in new String('a'.repeat(1.6e7)));",
    "Array.prototype.map.call('a'.repeat(1.6e7), isNaN)",
    "Array.prototype.join.call('a'.repeat(4e6))",
    "Array.prototype.indexOf.call('a'.repeat(1.6e7), 'b')",
    "'a'.repeat(8e6).localeCompare('a'.repeat(8e6) + 'b')",
    "'\\u1e9b\\u0323'.repeat(4e6).normalize('NFKC')",
    "'\\ufdfa'.repeat(4e6).normalize('NFKD')",
    "'\\u0130'.repeat(4e6).toLowerCase()",
    "'\\u03a3'.repeat(4e6).toLowerCase()",
    "('a' + '\\u00ad'.repeat(4e6) + '\\u03a3' + '\\u00ad'.repeat(4e6)).toLowerCase()",
    "'\\u03a3\\u00ad'.repeat(4e6).toLowerCase()",
    "encodeURIComponent('\\u4e00'.repeat(4e6))",
    "decodeURIComponent('%e4%b8%80'.repeat(1e6))",
    "unescape('%u4e00'.repeat(2e6))",
    "Number('9'.repeat(1.6e7))",
    "Number('0.' + '0'.repeat(1.5e7) + '1')",
    "parseFloat('9'.repeat(1.6e7))",
    "parseInt('z'.repeat(1.6e7), 36)",
    "Number('0x' + 'f'.repeat(1.5e7))",
    "(1e21).toFixed(100) + (0.1).toPrecision(100) + (2 ** 1023).toString(3)",
    "Date.parse('1'.repeat(1.6e7))",
    "Date.parse('('.repeat(1.6e7))",
    "new Date('Jan '.repeat(4e6)).toLocaleString()",
    "JSON.parse('['.repeat(4e6))",
    "JSON.parse('[' + '1,'.repeat(3e6) + '1]')",
    "JSON.parse('{' + Array.from({ length: 2e5 }, (v, i) => `\"k${i}\":1`).join() + '}')",
    "JSON.parse('\"' + '\\\\u0061'.repeat(1e6) + '\"')",
    "JSON.parse('[' + '1,'.repeat(1e6) + '1]', function (k, v) { return v; })",
    "JSON.parse('9'.repeat(7e6))",
    "new RegExp('a'.repeat(4e6))",
    "new RegExp('(a)'.repeat(1e6))",
    "new RegExp('[' + '\\\\u0430-\\\\u0431'.repeat(3e5) + ']')",
    "new RegExp('(?:' + 'a|'.repeat(1e6) + 'b)').test('c')",
    "new RegExp('\\\\p{L}'.repeat(1e4), 'ui')",
    "new RegExp('[\\\\p{L}--\\\\p{Lu}]'.repeat(3e3), 'v')",
    "new RegExp('(?<a' + 'a'.repeat(1e6) + '>b)')",
    "new RegExp('(?:a{1000}){1000}').test('a'.repeat(1e6))",
    "new RegExp(Array.from({ length: 250 }, (v, i) => `(?<n${i}>a)`).join('|') + '|\\\\k<n1>').test('b'.repeat(1e5))",
    "/(a+)+$/.test('a'.repeat(30) + 'b')",
    "/(?:a|a)*b/.test('a'.repeat(40))",
    "/^(?:(?=a)a|b)*c/.test('a'.repeat(1e6))",
    "/(?<=(a*)*)b/.test('a'.repeat(40))",
    "/[^b]*?c/.test('a'.repeat(1e5))",
    "'a'.repeat(1e5).replace(/a*?c/g, '')",
    "'a'.repeat(1e5).match(/a*c/g)",
    "'a'.repeat(1e5).split(/a*c/)",
    "'a'.repeat(1e6).matchAll(/a*?b/g).next()",
    "/a/[Symbol.replace]('a'.repeat(1.6e7), many(left))",
    "'a'.repeat(1.6e7).lastIndexOf('a'.repeat(60) + 'b')",
    "'a'.repeat(1.6e7).indexOf('a'.repeat(60) + 'b')",
    "'x'.padStart(1.6e7, 'ab').padEnd(1.6e7)",
    "' '.repeat(1.6e7).trim()",
    "'a'.repeat(1.6e7).isWellFormed() && '\\ud800'.repeat(7e6).toWellFormed()",
    "'a'.repeat(1.6e7).anchor('\"'.repeat(1e6))",
    "Symbol.for('a'.repeat(1.6e7))",
    "({})['a'.repeat(1.6e7)]",
    "var o = {}; for (var i = 0; i < 1e9; i++) o[left + i] = 1",
    // Big integers.
    "big * big",
    "big ** 2n",
    "3n ** 300000n",
    "big % 7n",
    "((1n << 1000000n) - 1n) / big",
    "BigInt.asUintN(500000, -big)",
    "BigInt('9'.repeat(50000))",
    "BigInt('0x' + 'f'.repeat(200000))",
    "big.toString()",
    "big.toString(7)",
    "big.toLocaleString()",
    "big.toString(16)",
    "Number(big)",
    "big == '9'.repeat(60000)",
    "big < '9'.repeat(60000)",
    "1n << big",
    "({})[largest]",
    "BigInt(`${largest}`)",
    "many(largest, 50).join()",
    "[largest, largest].sort()",
    // Numbers and buffers.
    "new Uint8Array(1.6e7).sort()",
    "new Uint8Array(1.6e7).toSorted()",
    "new Float64Array(2e6).map((v, i) => (i * 7919) % 1000003).sort()",
    "new Float64Array(2e6).fill(0.1).join()",
    "new Float64Array(2e6).fill(0.1).toString()",
    "new Float64Array(2e6).fill(0.1).toLocaleString()",
    "new Uint8Array(1.6e7).indexOf(9)",
    "new Uint8Array(1.6e7).reverse()",
    "Array.from(new Uint8Array(1.6e7))",
    "[...new Uint8Array(1.6e7)]",
    "new Set(new Float64Array(2e6).map((v, i) => i))",
    "new Float64Array(new Uint8Array(2e6))",
    "new Uint8Array(new Float64Array(2e6))",
    "new Uint8Array(1.6e7).every(isFinite)",
    "new Uint8Array(1.6e7).map(isNaN)",
    "new Uint8Array(1.6e7).filter(isFinite)",
    "new Uint8Array(1.6e7).reduce(Math.max)",
    "new Uint8Array(1.6e7).findLast(isNaN)",
    "Object.keys(new Uint8Array(1.6e7))",
    "Object.freeze(new Array(9e5).fill(1))",
    "JSON.stringify(new Uint8Array(1.6e7))",
    "JSON.stringify(many(0.1, 9e5))",
    "many(0.1, 9e5).join()",
    "many(0.1, 9e5).sort()",
    "many(0.1, 9e5).toSorted()",
    "many(1, 9e5).every(isFinite)",
    "many(1, 9e5).map(isNaN)",
    "many(1, 9e5).reduce(Math.max)",
    "many(1, 9e5).filter(isNaN)",
    "many(1, 9e5).lastIndexOf(2)",
    "Math.hypot.apply(null, many(0.1, 60000))",
    "Math.sumPrecise(many(0.1, 9e5))",
    "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "new ArrayBuffer(1.6e7).slice(0)",
    // Objects with many members.
    "var o = {}; for (var i = 0; i < 2e5; i++) o['k' + i] = i; Object.entries(o)",
    "var o = {}; for (var i = 0; i < 2e5; i++) o['k' + i] = i; Object.assign({}, o)",
    "var o = {}; for (var i = 0; i < 1e5; i++) o['k' + i] = i; for (i = 0; i < 1e5; i++) delete o['k' + i]",
    "var o = {}; for (var i = 0; i < 1e5; i++) o['k' + i] = i; for (var k in o) delete o[k]",
    "var o = {}; for (var i = 0; i < 1e5; i++) o = Object.create(o); for (var k in o);",
    "var o = {}; for (var i = 0; i < 1e5; i++) o = Object.create(o); o.x",
    "var o = {}; for (var i = 0; i < 1e5; i++) o = Object.create(o); 'x' in o",
    "var o = {}; for (var i = 0; i < 1e5; i++) o = Object.create(o); o instanceof Date",
    "var o = {}; for (var i = 0; i < 3e4; i++) o = Object.create(o); many(1, 3e4).map(() => o.x)",
    "var o = {}; for (var i = 0; i < 3e4; i++) o = Object.create(o); o.length = 1e9; Array.prototype.indexOf.call(o, 1)",
    "var p = {}; for (var i = 0; i < 3000; i++) p = new Proxy(p, {}); p.x",
    "var f = Math.max; for (var i = 0; i < 1e5; i++) f = f.bind(null); f()",
    "var f = Math.max; for (var i = 0; i < 1e5; i++) f = f.bind(null); ({}) instanceof f",
    "var s = ''; for (var i = 0; i < 1e6; i++) s = 'x' + s + 'y'; s.charCodeAt(5)",
    "var s = ''; for (var i = 0; i < 1e6; i++) s = s + 'xy'; many(s, 1e5).indexOf(s + 'z')",
    "var a = []; for (var i = 0; i < 1e5; i++) a = [a]; JSON.stringify(a)",
    "var a = []; for (var i = 0; i < 1e5; i++) a = [a]; String(a)",
    "var o = {}; for (var i = 0; i < 1e6; i++) o = { o }; o = null",
    "var m = new Map(); for (var i = 0; i < 3e5; i++) m.set(i, i); for (var j = 0; j < 3e5; j++) { m.delete(j); m.keys().next(); }",
];

fn lateness(step: &str, time: Duration) -> (Duration, String) {
    let limits = Limits { time, stops_before_block: u32::MAX, ..Limits::default() };
    let engine = ScriptEngine::new(limits).unwrap();
    let prelude = PRELUDE.iter().filter(|(name, _)| step.contains(name));
    let prelude: String = prelude.map(|(_, text)| *text).collect();
    let script =
        engine.compile(ScriptKind::Procedure, &format!("function () {{ {prelude} {step} }}"));
    let script = script.unwrap_or_else(|error| panic!("{step}: {error}"));
    let mut transaction = Transaction::begin(&Container::new("/pk"), Some(json!("a")));
    let started = Instant::now();
    let outcome = engine.run_procedure(&script, "[]", &mut transaction, CallOptions::default());
    let late = started.elapsed().saturating_sub(time);
    let end = outcome.result.map_or_else(|error| error.to_string(), |_| "ended".to_owned());
    (late, end.chars().take(90).collect())
}

/// Every second step, from the first or the second on: two tests, for two cores.
fn check(from: usize) {
    let is_verbose = std::env::var_os("BUILTINS_VERBOSE").is_some();
    let only: Option<usize> = std::env::var("BUILTINS_ONLY").ok().and_then(|at| at.parse().ok());
    let mut late = Vec::new();
    for (at, step) in STEPS.iter().enumerate().skip(from).step_by(2) {
        if only.is_some_and(|only| only != at) {
            continue;
        }
        let (by, end) = lateness(step, TIME);
        if is_verbose {
            println!("{at:>3} {:>6} ms late  {step}   {end}", by.as_millis());
        }
        if by > LATE_MAX {
            late.push(format!("{by:?} {step}"));
        }
    }
    assert!(late.is_empty(), "too late:\n{}", late.join("\n"));
}

#[test]
fn no_built_in_function_keeps_a_script_beyond_its_time() {
    check(0);
}

#[test]
fn nor_does_any_of_the_others() {
    check(1);
}

/// Writing the largest integers down takes seconds, in one operation that the engine is interrupted in.
#[test]
fn texts_and_products_of_the_largest_integers_end_in_time() {
    for step in [
        "`${largest}`",
        "largest + ''",
        "largest.toString()",
        "largest.toString(7)",
        "largest.toLocaleString()",
        "String(largest)",
        "BigInt('9'.repeat(310000))",
        "for (;;) big * big",
        "for (;;) largest / big",
        "for (;;) 3n ** 600000n",
    ] {
        let (late, end) = lateness(step, TIME);
        assert!(end.contains("was stopped"), "{step}: {end}");
        assert!(late < Duration::from_secs(1), "{step}: {late:?}");
    }
}

/// The engine's own `find` freed an element twice when it was interrupted between two calls, and the
/// process ended by a signal.
#[test]
fn a_search_that_is_interrupted_between_two_elements_frees_nothing_twice() {
    for search in ["find", "findIndex", "findLast", "findLastIndex"] {
        let step = format!("many(left).{search}(x => x === right)");
        for millis in [10, 25, 40, 55] {
            let (_, end) = lateness(&step, Duration::from_millis(millis));
            assert!(end.contains("was stopped"), "{end}");
        }
    }
}
