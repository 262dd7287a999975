// The logic of src/lib, bundled by Vite and tried by Node's own runner.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { parse } from "svelte/compiler";
import { build } from "vite";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
let folder, json, text, merging, hash, snippets, log, policy, rules, advice;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "explorer-logic-"));
  await build({ configFile: false, root, logLevel: "error", build: { outDir: folder, emptyOutDir: true, minify: false, lib: { entry: { json: "src/lib/json.ts", text: "src/lib/text.ts", merge: "src/lib/merge.ts", hash: "src/lib/hash.ts", snippets: "src/lib/snippets.ts", log: "src/lib/log.ts", policy: "src/lib/policy.ts", rules: "src/lib/rules.ts", advice: "src/lib/advice.ts" }, formats: ["es"] } } });
  json = await import(join(folder, "json.js"));
  text = await import(join(folder, "text.js"));
  merging = await import(join(folder, "merge.js"));
  hash = await import(join(folder, "hash.js"));
  snippets = await import(join(folder, "snippets.js"));
  log = await import(join(folder, "log.js"));
  policy = await import(join(folder, "policy.js"));
  rules = await import(join(folder, "rules.js"));
  advice = await import(join(folder, "advice.js"));
});
after(() => rmSync(folder, { recursive: true, force: true }));

const ITEM = '{"id":"a","n":1.0,"big":12345678901234567890,"e":1e2,"s":"\\u00e9 {[,","o":{"z":1,"a":[1,{"k":null}]},"_rid":"x","_self":"y","_etag":"z","_attachments":"w","_ts":1}';

test("formatting keeps numbers, strings and order, and comes back", () => {
  const pretty = json.pretty(ITEM);
  assert.match(pretty, /"n": 1\.0,\n/);
  assert.match(pretty, /12345678901234567890/);
  assert.equal(pretty.replace(/\n\s*/g, "").replaceAll('": ', '":'), ITEM);
  assert.equal(json.pretty("{}"), "{}");
  assert.equal(json.pretty('{"a":[]}'), '{\n  "a": []\n}');
});
test("system members go, all others keep their bytes", () => {
  assert.equal(json.withoutSystem(ITEM), ITEM.slice(0, ITEM.indexOf(',"_rid"')) + "}");
  assert.equal(json.withoutSystem('{"a": 1}'), '{"a": 1}');
});
test("keys of every kind become headers", () => {
  assert.equal(json.keyHeader('{"k":"ü"}', ["/k"]), '["\\u00fc"]');
  assert.equal(json.keyHeader('{"k":1.50}', ["/k"]), "[1.50]");
  assert.equal(json.keyHeader('{"k":null}', ["/k"]), "[null]");
  assert.equal(json.keyHeader("{}", ["/k"]), "[{}]");
  assert.equal(json.keyHeader('{"a":{"b c":true},"d":2}', ['/a/"b c"', "/d", "/e"]), "[true,2,{}]");
});
test("what the server refuses is found before it is sent", () => {
  assert.equal(json.problem('{"a":1,"b":{"a":2}}'), undefined);
  assert.match(json.problem('{"a":1,"a":2}').message, /twice/);
  assert.match(json.problem('{"\\u0061":1,"a":2}').message, /twice/);
  assert.ok(json.problem("{").message);
  assert.match(json.problem(`${'{"a":'.repeat(129)}1${"}".repeat(129)}`).message, /levels/);
  assert.match(json.problem("[]").message, /object/);
  assert.match(json.problem(`{"a":"${"x".repeat(2_100_000)}"}`).message, /2 MB/);
  assert.deepEqual(json.lineOf("ab\ncd", 4), { line: 2, column: 2 });
});
test("rows of a feed are taken out as they are", () => {
  const rows = json.elements('[ {"a":1.0} , "x,]" ,[1,2], null]');
  assert.deepEqual(rows, ['{"a":1.0}', '"x,]"', "[1,2]", "null"]);
});
test("statements are split outside of strings and comments", () => {
  const all = text.statements("SELECT ';' FROM c; -- a; b\nSELECT 2");
  assert.equal(all.length, 2);
  assert.equal(all[0].text, "SELECT ';' FROM c");
  assert.equal(text.statementAt("SELECT 1; SELECT 2", 14).text, "SELECT 2");
  assert.equal(text.statementAt("", 0), undefined);
});
test("errors of queries have their places", () => {
  const found = text.sqlErrors('Message: {"errors":[{"severity":"Error","location":{"start":9,"end":12},"code":"SC1001","message":"Syntax error"}]}');
  assert.deepEqual(found, [{ message: "Syntax error", code: "SC1001", start: 9, end: 12 }]);
  assert.equal(text.sqlErrors("plain")[0].message, "plain");
});
test("differences are lines", () => {
  const lines = text.diff("a\nb\nc", "a\nx\nc").map((one) => one.kind[0] + one.text);
  assert.deepEqual(lines, ["sa", "gb", "nx", "sc"]);
  assert.ok(text.diff("a", "a").every((one) => one.kind === "same"));
});
test("heat goes by the share of the budget", () => {
  assert.deepEqual([0, 10, 50, 80, 100, 500].map((used) => text.heat(used, 100)), [0, 1, 2, 3, 4, 4]);
  assert.equal(text.heat(5, 0), 0);
});
test("rows become CSV with quotes where they are needed", () => {
  assert.equal(text.csv(['{"a":"x,\\"y","b":1.0}', '{"c":null}'], json.members, json.cell), 'a,b,c\r\n"x,""y",1.0,\r\n,,null\r\n');
});
test("space between values goes, values stay", () => {
  assert.equal(json.compact('{ "a" : 1.0 ,\n "b": [ "x , y" , { } ] }'), '{"a":1.0,"b":["x , y",{}]}');
});
test("two changes of an item are merged, and what clashes is picked", () => {
  const base = '{"id":"a","n":1.0,"big":12345678901234567890,"o":{"x":1,"y":2},"gone":true}';
  const mine = '{\n  "id": "a",\n  "n": 2.0,\n  "big": 12345678901234567890,\n  "o": {"x": 5, "y": 2},\n  "gone": true,\n  "fresh": 1}';
  const stored = '{"id":"a","n":1.0,"big":12345678901234567890,"o":{"x":1,"y":7},"more":[1]}';
  const clean = merging.merge(base, mine, stored);
  assert.deepEqual(clean.clashes, []);
  assert.equal(clean.text, '{"id":"a","n":2.0,"big":12345678901234567890,"o":{"x":5,"y":7},"fresh":1,"more":[1]}');
  const both = merging.merge('{"t":1}', '{"t":2}', '{"t":3}');
  assert.deepEqual(both, { text: '{"t":2}', clashes: [{ path: "/t", base: "1", mine: "2", stored: "3" }] });
  assert.equal(merging.merge('{"t":1}', '{"t":2}', '{"t":3}', { "/t": "stored" }).text, '{"t":3}');
  assert.equal(merging.merge('{"t":1}', "{}", '{"t":3}', { "/t": "mine" }).text, "{}");
});
test("a key lies in the range that the service's hash says", () => {
  // From the public test data of the SDKs: effective keys of version 2.
  assert.equal(hash.effectiveKey('["partitionKey"]', false), "013AEFCF77FA271571CF665A58C933F1");
  assert.equal(hash.effectiveKey('["redmond"]', false), "22E342F38A486A088463DFF7838A5963");
  assert.equal(hash.effectiveKey("[true]", false), "0E711127C5B5A8E4726AC6DD306A3E59");
  assert.equal(hash.effectiveKey("[null]", false), "378867E4430E67857ACE5C908374FE16");
  assert.equal(hash.effectiveKey('["a","b"]', true).length, 64);
  const ranges = [{ id: "0", minInclusive: "", maxExclusive: "20" }, { id: "1", minInclusive: "20", maxExclusive: "FF" }];
  assert.equal(hash.rangeOf(ranges, "1FFF").id, "0");
  assert.equal(hash.rangeOf(ranges, "20AA").id, "1");
});
test("the place of an error has a caret", () => {
  assert.equal(text.caret("SELECT *\nFRM c", 9, 12), "FRM c\n^^^");
  assert.equal(text.caret("SELECT", 6), "SELECT\n      ^");
});
test("an item is read in every language by its id and key", () => {
  const at = { endpoint: "http://localhost:8081/", database: "d", container: "c c", id: 'a"b', key: '["x",null,1]' };
  for (const [name, snippet] of Object.entries(snippets.SNIPPETS)) assert.ok(snippet(at).length > 20, name);
  assert.match(snippets.SNIPPETS.Python(at), /partition_key=\["x", None, 1\]/);
  assert.match(snippets.SNIPPETS.Go(at), /AppendString\("x"\)\.AppendNull\(\)\.AppendNumber\(1\)/);
  assert.match(snippets.SNIPPETS.curl(at), /colls\/c%20c\/docs\/a%22b/);
});
test("a query and the requests for its rows are one sequence, over partitions, pages and clients", () => {
  let number = 0;
  const entry = (operation, container, more = {}) => ({ number: ++number, at: 1000 + number * 10, client: "app", operation, database: "d", container, key: null, item: null, query: null, continues: false, status: 200, charge: 1, milliseconds: 1, partitions: 1, rows: 1, ...more });
  const feed = (range) => entry("query", "posts", { query: JSON.stringify({ query: `SELECT TOP 100 * FROM c WHERE c.type = 'post' AND ${range} = ${range}` }), charge: 5, rows: 4 });
  const all = [feed(1), feed(2), feed(3)];
  for (let at = 0; at < 10; at++) all.push(entry("read", "users", { key: `["u${at}"]` }), entry("query", "posts", { key: `["p${at}"]`, query: JSON.stringify({ query: "SELECT VALUE COUNT(1) FROM c WHERE c.p = @p", parameters: [{ name: "@p", value: at }] }), charge: 8 }));
  // Another client between them changes nothing; a pause ends the sequence.
  all.push(entry("read", "users", { client: "other", key: "[1]" }), entry("read", "users", { key: '["later"]', at: 1e6 }));
  const found = log.sequences(all.toReversed());
  assert.equal(found.length, 1);
  assert.deepEqual([found[0].headRequests, found[0].headCharge, found[0].requests, found[0].charge, found[0].times], [3, 15, 23, 105, 1]);
  assert.deepEqual(found[0].followers.map((one) => [one.operation, one.container, one.count, one.charge]), [["query", "posts", 10, 80], ["read", "users", 10, 10]]);
  // The same again is told once.
  const again = all.slice(0, 23).map((one) => ({ ...one, number: one.number + 100, at: one.at + 5000 }));
  assert.equal(log.sequences([...all.slice(0, 23), ...again])[0].times, 2);
  assert.deepEqual(log.sequences([feed(1), feed(2), ...Array.from({ length: 4 }, () => entry("read", "users", { key: "[1]" }))]), []);
  assert.equal(log.parametersOf(all[4]), '[{"name":"@p","value":0}]');
});
test("an order is offered where the policy has an index", () => {
  const all = { indexingMode: "consistent", includedPaths: [{ path: "/*" }, { path: "/a/secret/shown/?" }], excludedPaths: [{ path: "/a/secret/*" }, { path: "/only/?" }] };
  for (const path of ["/x", "/a", "/a/b", "/a/secret/shown", "/only/below", "/_ts", "/id"]) assert.ok(policy.isIndexed(all, path), path);
  for (const path of ["/a/secret/x", "/only"]) assert.ok(!policy.isIndexed(all, path), path);
  assert.ok(!policy.isIndexed({ indexingMode: "none", includedPaths: [{ path: "/*" }] }, "/x"));
  assert.ok(policy.isIndexed({ includedPaths: [{ path: '/"odd name"/?' }], excludedPaths: [{ path: "/*" }] }, "/odd name"));
});
test("items begin with their key, and a member is changed without the others", () => {
  assert.equal(json.template(["/a/b", "/id", "/c"]), '{"id":"","a":{"b":""},"c":""}');
  assert.equal(json.withMember('{ "id":"x", "n": 1.0 }', "id", '"y"'), '{ "id":"y", "n": 1.0 }');
  assert.equal(json.withMember('{"n":1.0}', "id", '"y"'), '{"id":"y","n":1.0}');
});
test("keys are written as one likes", () => {
  assert.deepEqual(["u1", '"u1"', "1", "null", '["a", 1]', " x y "].map(text.keyText), ['["u1"]', '["u1"]', "[1]", "[null]", '["a", 1]', '["x y"]']);
});
test("advice is underlined where it belongs", () => {
  const query = "SELECT * FROM c WHERE ARRAY_CONTAINS(c.l, 1, true) AND CONTAINS(c.t, 'x')";
  const marked = (rule) => { const { from, to } = rules.placeOf(rule, query); return [from, query.slice(from, to)]; };
  assert.deepEqual(marked("QA1000"), [22, "ARRAY_CONTAINS"]);
  assert.deepEqual(marked("QA1002"), [query.indexOf(" CONTAINS") + 1, "CONTAINS"]);
  assert.equal(marked("QA9999")[1], query);
});
test("findings come by what they save a day, what is to be watched last", () => {
  const one = (id, kind, savedUnitsPerDay) => ({ id, kind, savedUnitsPerDay });
  const all = [one("w", "watch", null), one("a", "change", 5), one("b", "change", 50)];
  assert.deepEqual(advice.sorted(all).map((each) => each.id), ["b", "a", "w"]);
  assert.deepEqual(advice.sorted(all, ["a"]).map((each) => each.id), ["a", "w"]);
});
test("data never becomes markup", () => {
  const walk = (at) => readdirSync(at, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? walk(join(at, one.name)) : [join(at, one.name)]));
  for (const file of walk(join(root, "src"))) assert.doesNotMatch(readFileSync(file, "utf8"), /\{@html|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\bstyle="/, file);
});
test("texts that people read are in one file", () => {
  const NAMED = new Set(["aria-label", "title", "placeholder", "label", "alt"]), CODE = new Set(["code", "kbd", "pre"]);
  const isWords = (text) => /[A-Za-z]{2,}/.test(text);
  const found = [];
  const look = (node, file) => {
    if (!node || typeof node !== "object") return;
    if (Array.isArray(node)) { node.forEach((one) => look(one, file)); return; }
    if (node.type === "Text" && isWords(node.data)) found.push(`${file}: ${node.data.trim()}`);
    if (node.type === "StyleDirective" || node.type === "ClassDirective") return;
    if (node.type === "Attribute") {
      if (NAMED.has(node.name) && Array.isArray(node.value)) for (const part of node.value) if (part.type === "Text" && isWords(part.data)) found.push(`${file}: ${node.name} ${part.data}`);
      return;
    }
    // Code and values that the protocol knows are the same in every language.
    if (CODE.has(node.name) || (node.name === "option" && !node.attributes.some((one) => one.name === "value"))) return;
    for (const [name, value] of Object.entries(node)) if (name !== "parent" && name !== "expression") look(value, file);
  };
  const walk = (at) => readdirSync(at, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? walk(join(at, one.name)) : [join(at, one.name)]));
  const components = walk(join(root, "src")).filter((file) => file.endsWith(".svelte"));
  assert.ok(components.length > 20);
  for (const file of components) look(parse(readFileSync(file, "utf8"), { modern: true }).fragment, file.slice(root.length + 1));
  assert.deepEqual(found, []);
  // What the scripts of components say aloud: sentences.
  for (const file of components) {
    const script = /<script[^>]*>([\s\S]*?)<\/script>/.exec(readFileSync(file, "utf8"))?.[1].replace(/^\s*\/\/.*$/gm, "") ?? "";
    for (const [, text] of script.matchAll(/(?:said|busy|progress) = "([^"]*)"|confirm\("([^"]*)"|message: "([^"]*)"/g)) assert.ok(!text, `${file}: ${text}`);
  }
});
test("the weight stays within its budget", () => {
  const dist = join(root, "../crates/explorer/dist");
  const assets = readdirSync(join(dist, "assets"));
  const size = (name) => gzipSync(readFileSync(join(dist, name)), { level: 9 }).length;
  const index = readFileSync(join(dist, "index.html"), "utf8");
  const first = ["index.html", ...assets.filter((name) => index.includes(name)).map((name) => `assets/${name}`)];
  const firstSize = first.reduce((sum, name) => sum + size(name), 0);
  const all = ["index.html", ...assets.map((name) => `assets/${name}`)].reduce((sum, name) => sum + size(name), 0);
  assert.ok(firstSize <= 120 * 1024, `first view: ${firstSize} bytes`);
  assert.ok(all <= 350 * 1024, `everything: ${all} bytes`);
  const raw = ["index.html", ...assets.map((name) => `assets/${name}`)].reduce((sum, name) => sum + readFileSync(join(dist, name)).length, 0);
  assert.ok(raw <= 1.2 * 1024 * 1024, `raw: ${raw} bytes`);
});
