// Proves every verb on items through the JavaScript SDK: contents, ids, keys, etags, patch, batch, bulk.
import assert from "node:assert/strict";
import { test } from "node:test";
import { PartitionKeyBuilder } from "@azure/cosmos";
import { refused, rows, useDatabase, userPart } from "./server.mjs";

const own = await useDatabase();

test("an item lives and dies", async () => {
  const container = await own.container();
  const item = { id: "a", pk: "p", n: 1, text: "Grüße ☃ 🪐", list: [1, null, { x: 1.5 }], no: null };
  const created = await container.items.create(item);
  assert.equal(created.statusCode, 201);
  assert.deepEqual(userPart(created.resource), item);
  assert.equal((await refused(container.items.create(item))).code, 409);
  const replaced = await created.item.replace({ ...item, n: 2 });
  assert.equal(replaced.statusCode, 200);
  assert.notEqual(replaced.etag, created.etag);
  assert.equal((await container.items.upsert({ ...item, n: 3 })).statusCode, 200);
  assert.equal((await container.item("a", "p").read()).resource.n, 3);
  assert.equal((await container.item("a", "p").delete()).statusCode, 204);
  assert.equal((await container.item("a", "p").read()).statusCode, 404);
  assert.equal((await refused(container.item("a", "p").delete())).code, 404);
});

test("an id is made when there is none", async () => {
  const container = await own.container();
  const made = await container.items.create({ pk: "p" });
  assert.match(made.resource.id, /^[0-9a-f-]{36}$/);
  const error = await refused(container.items.create({ pk: "p" }, { disableAutomaticIdGeneration: true }));
  assert.equal(error.code, 400);
});

for (const id of ["with space", "ümläut ☃", "a+b", "100%", "quote\"s", "semi;colon", "%2F", "🪐"]) {
  test(`the id ${JSON.stringify(id)} is found again`, async () => {
    const container = await own.container();
    await container.items.create({ id, pk: "p" });
    assert.equal((await container.item(id, "p").read()).resource?.id, id);
    await container.item(id, "p").patch([{ op: "set", path: "/seen", value: true }]);
    await container.item(id, "p").delete();
  });
}

test("keys of every type are told apart", async () => {
  const container = await own.container();
  const values = ["5", 5, -0.5, true, false, "true", ""];
  for (const [n, pk] of values.entries()) await container.items.create({ id: "a", pk, n });
  await container.items.create({ id: "a", pk: null, n: "null" });
  await container.items.create({ id: "a", n: "absent" });
  for (const [n, pk] of values.entries()) {
    assert.equal((await container.item("a", pk).read()).resource?.n, n);
    assert.deepEqual(await rows(container, "SELECT VALUE c.n FROM c", { partitionKey: pk }), [n]);
  }
  assert.equal((await container.item("a", null).read()).resource?.n, "null");
  assert.equal((await container.item("a", new PartitionKeyBuilder().addNoneValue().build()).read()).resource?.n, "absent");
  assert.equal((await container.item("a", undefined).read()).resource?.n, "absent");
});

test("hierarchical keys name items and prefixes find subtrees", async () => {
  const container = await own.container({
    partitionKey: { paths: ["/tenant", "/user"], kind: "MultiHash", version: 2 },
  });
  for (const tenant of ["t1", "t2"]) {
    for (const user of ["u1", "u2", "u3"]) {
      await container.items.create({ id: `${tenant}${user}`, tenant, user });
    }
  }
  const full = new PartitionKeyBuilder().addValue("t1").addValue("u2").build();
  assert.equal((await container.item("t1u2", full).read()).resource?.user, "u2");
  assert.deepEqual(await rows(container, "SELECT VALUE c.id FROM c", { partitionKey: full }), ["t1u2"]);
  const prefix = new PartitionKeyBuilder().addValue("t2").build();
  const found = await rows(container, "SELECT VALUE c.id FROM c", { partitionKey: prefix });
  assert.deepEqual(found.toSorted(), ["t2u1", "t2u2", "t2u3"]);
});

test("etags guard replace, delete and reads", async () => {
  const container = await own.container();
  const first = await container.items.create({ id: "a", pk: "p", n: 1 });
  await container.items.upsert({ id: "a", pk: "p", n: 2 });
  const stale = { accessCondition: { type: "IfMatch", condition: first.etag } };
  const item = container.item("a", "p");
  assert.equal((await refused(item.replace({ id: "a", pk: "p", n: 3 }, stale))).code, 412);
  assert.equal((await refused(item.delete(stale))).code, 412);
  assert.equal((await refused(item.patch([{ op: "incr", path: "/n", value: 1 }], stale))).code, 412);
  const read = await item.read();
  const unchanged = { accessCondition: { type: "IfNoneMatch", condition: read.etag } };
  assert.equal((await item.read(unchanged)).statusCode, 304);
});

test("patch takes an array, and an object with a condition", async () => {
  const container = await own.container();
  await container.items.create({ id: "a", pk: "p", n: 1, list: [1, 2], old: 1 });
  const item = container.item("a", "p");
  const first = await item.patch([
    { op: "incr", path: "/n", value: 4 },
    { op: "add", path: "/list/-", value: 3 },
    { op: "move", from: "/old", path: "/young" },
    { op: "set", path: "/made", value: { here: true } },
    { op: "remove", path: "/list/0" },
  ]);
  assert.deepEqual(userPart(first.resource), {
    id: "a", pk: "p", n: 5, list: [2, 3], young: 1, made: { here: true },
  });
  const operations = [{ op: "replace", path: "/n", value: 0 }];
  await item.patch({ condition: "from c where c.n = 5", operations });
  const error = await refused(item.patch({ condition: "from c where c.n = 5", operations }));
  assert.equal(error.code, 412);
});

test("a batch does all or nothing", async () => {
  const container = await own.container();
  await container.items.create({ id: "old", pk: "p", n: 1 });
  const done = await container.items.batch(
    [
      { operationType: "Create", resourceBody: { id: "new", pk: "p" } },
      { operationType: "Upsert", resourceBody: { id: "up", pk: "p" } },
      { operationType: "Read", id: "new" },
      { operationType: "Replace", id: "old", resourceBody: { id: "old", pk: "p", n: 2 } },
      { operationType: "Patch", id: "old", resourceBody: [{ op: "incr", path: "/n", value: 1 }] },
      { operationType: "Delete", id: "up" },
    ],
    "p",
  );
  assert.equal(done.code, 200);
  assert.deepEqual(done.result.map((result) => result.statusCode), [201, 201, 200, 200, 200, 204]);
  assert.equal(done.result[4].resourceBody.n, 3);

  const undone = await container.items.batch(
    [
      { operationType: "Create", resourceBody: { id: "never", pk: "p" } },
      { operationType: "Delete", id: "missing" },
      { operationType: "Delete", id: "old" },
    ],
    "p",
  );
  assert.equal(undone.code, 207);
  assert.deepEqual(undone.result.map((result) => result.statusCode), [424, 404, 424]);
  assert.equal((await container.item("never", "p").read()).statusCode, 404);
  assert.equal((await container.item("old", "p").read()).statusCode, 200);
});

test("bulk operations stand alone and reach every range", async () => {
  const container = await own.container({ throughput: 25000 });
  const creates = Array.from({ length: 250 }, (_, n) => ({
    operationType: "Create",
    partitionKey: `key ${n % 40}`,
    resourceBody: { id: `${n}`, pk: `key ${n % 40}`, n },
  }));
  const created = await container.items.executeBulkOperations(creates);
  assert.equal(created.length, 250);
  assert.ok(created.every((result) => result.response?.statusCode === 201));

  const mixed = await container.items.executeBulkOperations([
    { operationType: "Read", partitionKey: "key 3", id: "3" },
    { operationType: "Read", partitionKey: "key 3", id: "missing" },
    { operationType: "Create", partitionKey: "key 4", resourceBody: { id: "4", pk: "key 4" } },
    { operationType: "Upsert", partitionKey: "key 5", resourceBody: { id: "5", pk: "key 5", n: -5 } },
    { operationType: "Replace", partitionKey: "key 6", id: "6", resourceBody: { id: "6", pk: "key 6", n: -6 } },
    {
      operationType: "Patch", partitionKey: "key 7", id: "7",
      resourceBody: { operations: [{ op: "incr", path: "/n", value: 100 }] },
    },
    { operationType: "Delete", partitionKey: "key 8", id: "8" },
  ]);
  const codes = mixed.map((result) => result.response?.statusCode ?? result.error?.code);
  assert.deepEqual(codes, [200, 404, 409, 200, 200, 200, 204]);
  assert.equal((await container.item("7", "key 7").read()).resource.n, 107);
  assert.deepEqual(await rows(container, "SELECT VALUE COUNT(1) FROM c"), [249]);
});

test("all items of a key vanish together", async () => {
  const container = await own.container();
  for (let n = 0; n < 20; n++) await container.items.create({ id: `${n}`, pk: n % 2 ? "odd" : "even" });
  await container.deleteAllItemsForPartitionKey("odd");
  assert.deepEqual(await rows(container, "SELECT * FROM c", { partitionKey: "odd" }), []);
  assert.equal((await rows(container, "SELECT * FROM c")).length, 10);
});

test("unique keys hold and expired items are gone", async () => {
  const container = await own.container({
    uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/mail"] }] },
    defaultTtl: -1,
  });
  await container.items.create({ id: "1", pk: "p", mail: "a@x" });
  assert.equal((await refused(container.items.create({ id: "2", pk: "p", mail: "a@x" }))).code, 409);
  await container.items.create({ id: "3", pk: "p", mail: "b@x", ttl: 1 });
  const deadline = Date.now() + 20_000;
  while ((await container.item("3", "p").read()).statusCode !== 404) {
    assert.ok(Date.now() < deadline, "the item outlived its second");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal((await container.items.create({ id: "4", pk: "p", mail: "b@x" })).statusCode, 201);
});
