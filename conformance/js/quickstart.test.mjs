// Proves that the JavaScript quick start runs from start to end, and the life of databases and containers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { client, newName, refused, useDatabase } from "./server.mjs";

const own = await useDatabase();

test("the quick start runs from start to end", async () => {
  const id = newName("quickstart");
  const { database } = await client.databases.createIfNotExists({ id });
  try {
    const { container } = await database.containers.createIfNotExists({
      id: "products",
      partitionKey: { paths: ["/category"] },
    });
    const item = { id: "1", category: "gear-surf", name: "Yamba", quantity: 12, sale: false };
    const upserted = await container.items.upsert(item);
    assert.equal(upserted.statusCode, 201);
    assert.ok(upserted.requestCharge > 0);
    const read = await container.item("1", "gear-surf").read();
    assert.equal(read.statusCode, 200);
    assert.equal(read.resource.name, "Yamba");
    const { resources } = await container.items
      .query({
        query: "SELECT * FROM products p WHERE p.category = @category",
        parameters: [{ name: "@category", value: "gear-surf" }],
      })
      .fetchAll();
    assert.deepEqual(resources.map((row) => row.id), ["1"]);
    await container.item("1", "gear-surf").delete();
    assert.equal((await container.item("1", "gear-surf").read()).statusCode, 404);
    // Once more on what exists already.
    await client.databases.createIfNotExists({ id });
    await database.containers.createIfNotExists({ id: "products", partitionKey: { paths: ["/category"] } });
  } finally {
    await database.delete();
  }
});

test("a database is listed, found by query and refused twice", async () => {
  const id = own.database.id;
  const all = (await client.databases.readAll().fetchAll()).resources;
  assert.ok(all.some((database) => database.id === id));
  const found = await client.databases
    .query({ query: "SELECT * FROM root r WHERE r.id = @id", parameters: [{ name: "@id", value: id }] })
    .fetchAll();
  assert.equal(found.resources.length, 1);
  assert.equal((await refused(client.databases.create({ id }))).code, 409);
});

test("a container definition without kind is completed; without a version it is of the first", async () => {
  const container = await own.container();
  const { resource } = await container.read();
  assert.deepEqual(resource.partitionKey, { paths: ["/pk"], kind: "Hash" });
  assert.equal(resource.indexingPolicy.indexingMode, "consistent");
  const all = (await own.database.containers.readAll().fetchAll()).resources;
  assert.ok(all.some((entry) => entry.id === container.id));
});

test("a container is replaced with what was read", async () => {
  const container = await own.container();
  const { resource } = await container.read();
  resource.defaultTtl = 1000;
  resource.indexingPolicy.excludedPaths.push({ path: "/big/*" });
  const replaced = (await container.replace(resource)).resource;
  assert.equal(replaced.defaultTtl, 1000);
  assert.ok(replaced.indexingPolicy.excludedPaths.some((entry) => entry.path === "/big/*"));
  resource.partitionKey = { paths: ["/other"], kind: "Hash", version: 2 };
  assert.equal((await refused(container.replace(resource))).code, 400);
});

test("throughput is read and replaced, manual and autoscale", async () => {
  const manual = await own.container({ throughput: 600 });
  let { resource, offer } = await manual.readOffer();
  assert.equal(resource.content.offerThroughput, 600);
  resource.content.offerThroughput = 900;
  await offer.replace(resource);
  assert.equal((await manual.readOffer()).resource.content.offerThroughput, 900);

  const autoscale = await own.container({ maxThroughput: 4000 });
  ({ resource, offer } = await autoscale.readOffer());
  assert.equal(resource.content.offerAutopilotSettings.maxThroughput, 4000);
  resource.content.offerAutopilotSettings.maxThroughput = 8000;
  await offer.replace(resource);
  const after = (await autoscale.readOffer()).resource;
  assert.equal(after.content.offerAutopilotSettings.maxThroughput, 8000);
});

test("partition key ranges cover the whole space", async () => {
  const container = await own.container({ throughput: 25000 });
  const ranges = (await container.readPartitionKeyRanges().fetchAll()).resources;
  assert.ok(ranges.length >= 3);
  const sorted = ranges.toSorted((a, b) => (a.minInclusive < b.minInclusive ? -1 : 1));
  assert.equal(sorted[0].minInclusive, "");
  assert.equal(sorted.at(-1).maxExclusive, "FF");
  for (let i = 1; i < sorted.length; i++) {
    assert.equal(sorted[i].minInclusive, sorted[i - 1].maxExclusive);
  }
  assert.equal((await container.getFeedRanges()).length, ranges.length);
});
