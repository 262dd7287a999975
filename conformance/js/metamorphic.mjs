// Proves that answers do not depend on how they are asked for; see ../metamorphic/README.md. The containers
// and the kept answers (ARMILLA_ANSWERS) are the Python run's; `cargo xtask test --only metamorphic` runs both.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { client } from "./server.mjs";

const read = (path) => JSON.parse(readFileSync(path, "utf8"));
const queries = read(new URL("../metamorphic/queries.json", import.meta.url));
const answers = read(process.env.ARMILLA_ANSWERS ?? "metamorphic-answers.json");
// The how manieth run this is: before the restart, after it. Python takes other turns.
const run = Number(process.env.ARMILLA_RUN ?? "0") + 2;
const database = client.database("metamorphic");
const PAGES = [1000, 7, 1];
const KINDS = ["plain", "tree"];

/** How a query is asked: policy, ranges, rows in a page; see `ways` in ../python/metamorphic_data.py. */
function ways(kind, query, turn) {
  const off = query.sql.includes("ORDER BY") ? "lean" : "none";
  const over = (ranges) => ["full", off].flatMap((policy) => PAGES.map((page) => [policy, ranges, page]));
  const many = over(42);
  if (process.env.ARMILLA_WAYS === "all") return query.mixed ? over(1) : [...over(1), ...many];
  const few = [...over(1).slice(0, PAGES.length), [off, 1, PAGES[turn % 3]]];
  const ofKind = (turn + KINDS.indexOf(kind) * many.length) % (KINDS.length * many.length);
  return query.mixed || ofKind >= many.length ? few : [...few, many[ofKind]];
}

const partitionKey = (kind, levels) => (kind === "plain" ? `p${levels}` : ["t1", "u1", "s1"].slice(0, levels));

async function ask(kind, query, [policy, ranges, page]) {
  const options = { maxItemCount: page };
  if (query.key) options.partitionKey = partitionKey(kind, query.key);
  const spec = { query: query.sql, parameters: query.parameters ?? [] };
  const iterator = database.container(`${kind}-${policy}-${ranges}`).items.query(spec, options);
  const rows = [];
  while (iterator.hasMoreResults()) {
    const { resources } = await iterator.fetchNext();
    assert.ok((resources ?? []).length <= page);
    rows.push(...(resources ?? []).map(userPart));
  }
  return rows;
}

function userPart(row) {
  if (row === null || typeof row !== "object" || Array.isArray(row)) return row;
  return Object.fromEntries(Object.entries(row).filter(([name]) => !name.startsWith("_")));
}

/** A text that is the same for equal values; the last digits of what was divided do not count. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value !== null && typeof value === "object") {
    const names = Object.keys(value).sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join()}}`;
  }
  return typeof value === "number" ? value.toPrecision(12) : JSON.stringify(value);
}

/** Runs of rows with equal keys: the sequence of keys, each with the multiset of its rows. */
function byKeys(rows, names) {
  const runs = [];
  for (const row of rows) {
    const keys = names.map((name) => (name in row ? canonical(row[name]) : "undefined")).join();
    if (runs.at(-1)?.keys !== keys) runs.push({ keys, rows: [] });
    runs.at(-1).rows.push(canonical(row));
  }
  return runs.map((run) => ({ keys: run.keys, rows: run.rows.toSorted() }));
}

function comparable(query, rows) {
  if (query.size) return rows.length;
  if (query.order === "all") return rows.map(canonical);
  if (query.keys) return byKeys(rows, query.keys);
  return rows.map(canonical).toSorted();
}

/** The SDK's own DISTINCT loses rows that JavaScript takes for false: 0, "", null, false. */
const kept = (query, rows) =>
  query.sql.startsWith("SELECT DISTINCT VALUE") && !query.key ? rows.filter(Boolean) : rows;

after(() => client.dispose());

for (const kind of KINDS) {
  for (const [number, query] of queries.entries()) {
    test(`${kind}: ${query.sql}`, async () => {
      const expected = comparable(query, kept(query, answers[kind][number]));
      for (const way of ways(kind, query, number + run)) {
        const found = comparable(query, await ask(kind, query, way));
        assert.deepEqual(found, expected, `index ${way[0]}, ${way[1]} ranges, pages of ${way[2]}`);
      }
    });
  }
}
