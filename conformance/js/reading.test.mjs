// Proves reading many items through the JavaScript SDK: queries by page and across ranges, feeds, change feed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ChangeFeedStartFrom } from "@azure/cosmos";
import { refused, rows, useDatabase } from "./server.mjs";

const COUNT = 90;
const own = await useDatabase();
const filled = await own.container({ throughput: 25000 });
for (let n = 0; n < COUNT; n++) {
  await filled.items.create({
    id: `${n}`.padStart(3, "0"), pk: `p${n % 7}`, n, team: `g${n % 3}`, tags: [n % 2 ? "odd" : "even"],
  });
}

const up = Array.from({ length: COUNT }, (_, n) => n);

test("a feed shows each item once, page by page", async () => {
  const iterator = filled.items.readAll({ maxItemCount: 8 });
  const seen = [];
  while (iterator.hasMoreResults()) {
    const { resources } = await iterator.fetchNext();
    assert.ok(resources.length <= 8);
    seen.push(...resources.map((item) => item.n));
  }
  assert.deepEqual(seen.toSorted((a, b) => a - b), up);
});

const QUERIES = [
  ["SELECT VALUE c.n FROM c ORDER BY c.n", up],
  ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", up.toReversed()],
  ["SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n DESC", [89, 88, 87, 86]],
  ["SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 3", [10, 11, 12]],
  ["SELECT VALUE COUNT(1) FROM c", [COUNT]],
  ["SELECT VALUE SUM(c.n) FROM c WHERE c.team = 'g1'", [up.filter((n) => n % 3 === 1).reduce((a, b) => a + b)]],
  ["SELECT VALUE MAX(c.n) FROM c", [COUNT - 1]],
  ["SELECT VALUE AVG(c.n) FROM c", [(COUNT - 1) / 2]],
  ["SELECT VALUE c.id FROM c WHERE c.n = 17", ["017"]],
  ["SELECT VALUE COUNT(1) FROM c WHERE ARRAY_CONTAINS(c.tags, 'odd')", [COUNT / 2]],
  ["SELECT VALUE c.n FROM c WHERE c.n > 85 ORDER BY c.n", [86, 87, 88, 89]],
];

for (const [query, expected] of QUERIES) {
  test(`${query} across ranges`, async () => {
    assert.deepEqual(await rows(filled, query), expected);
    assert.deepEqual(await rows(filled, query, { maxItemCount: 5 }), expected);
    // The SDK's own pipeline would wait for more than -1 rows, for ever: such pages are merged by the server.
    assert.deepEqual(await rows(filled, query, { maxItemCount: -1 }), expected);
  });
}

test("distinct and group by are merged", async () => {
  assert.deepEqual((await rows(filled, "SELECT DISTINCT VALUE c.team FROM c")).toSorted(), ["g0", "g1", "g2"]);
  const distinct = await rows(filled, "SELECT DISTINCT VALUE c.team FROM c", { maxItemCount: -1 });
  assert.deepEqual(distinct.toSorted(), ["g0", "g1", "g2"]);
  const groups = await rows(filled, "SELECT c.team, COUNT(1) AS count, MAX(c.n) AS most FROM c GROUP BY c.team");
  assert.deepEqual(
    groups.toSorted((a, b) => (a.team < b.team ? -1 : 1)),
    [
      { team: "g0", count: 30, most: 87 },
      { team: "g1", count: 30, most: 88 },
      { team: "g2", count: 30, most: 89 },
    ],
  );
});

test("a query in one partition goes on from its continuation", async () => {
  const query = "SELECT VALUE c.n FROM c";
  const seen = [];
  let continuationToken;
  for (let page = 0; page < 50; page++) {
    const options = { partitionKey: "p2", maxItemCount: 4, continuationToken };
    const answer = await filled.items.query(query, options).fetchNext();
    seen.push(...answer.resources);
    continuationToken = answer.continuationToken;
    if (!continuationToken) break;
  }
  assert.deepEqual(seen, up.filter((n) => n % 7 === 2));
});

test("bad SQL is refused with its place", async () => {
  const error = await refused(rows(filled, "SELECT * FROM c WHERE c.n = = 1"));
  assert.equal(error.code, 400);
  assert.match(JSON.stringify(error.body ?? error.message), /[Ss]yntax|location|SC\d+/);
});

test("a query plan is answered", async () => {
  const { result } = await filled.getQueryPlan("SELECT TOP 3 c.n FROM c ORDER BY c.n");
  assert.equal(result.queryInfo.top, 3);
  assert.deepEqual(result.queryInfo.orderBy, ["Ascending"]);
  assert.ok(result.queryRanges.length >= 1);
});

async function drain(iterator) {
  const seen = [];
  for (let page = 0; page < 1000; page++) {
    const answer = await iterator.readNext();
    if (answer.statusCode === 304) return { seen, continuation: answer.continuationToken };
    seen.push(...answer.result);
  }
  throw new Error("the change feed does not end");
}

test("the change feed of a container shows each item once and goes on", async () => {
  const container = await own.container();
  for (let n = 0; n < 20; n++) await container.items.create({ id: `${n}`, pk: `p${n % 3}`, n });
  await container.items.upsert({ id: "4", pk: "p1", n: 400 });
  await container.item("5", "p2").delete();
  const options = { maxItemCount: 3, changeFeedStartFrom: ChangeFeedStartFrom.Beginning() };
  const first = await drain(container.items.getChangeFeedIterator(options));
  assert.equal(first.seen.length, 19);
  assert.deepEqual(first.seen.filter((row) => row.id === "4").map((row) => row.n), [400]);
  await container.items.create({ id: "later", pk: "p0" });
  const next = await drain(
    container.items.getChangeFeedIterator({
      changeFeedStartFrom: ChangeFeedStartFrom.Continuation(first.continuation),
    }),
  );
  assert.deepEqual(next.seen.map((row) => row.id), ["later"]);
});

test("the change feed from now, of one key and of one range", async () => {
  const container = await own.container();
  await container.items.create({ id: "before", pk: "a" });
  const now = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Now("a") });
  assert.equal((await now.readNext()).statusCode, 304);
  await container.items.create({ id: "after", pk: "a" });
  await container.items.create({ id: "elsewhere", pk: "b" });
  assert.deepEqual((await now.readNext()).result.map((row) => row.id), ["after"]);
  const [range] = await container.getFeedRanges();
  const all = await drain(
    container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(range) }),
  );
  assert.deepEqual(all.seen.map((row) => row.id), ["before", "after", "elsewhere"]);
});
