// Proves that the SDK's own retries carry writes through a throttled container, each of them once, one by one and
// in bulk, and that bulk operations are refused one by one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CosmosClient } from "@azure/cosmos";
import { endpoint, key, rows, useDatabase } from "./server.mjs";

const db = await useDatabase();
const UNITS = 400;
// About a hundred units, and about ten.
const LARGE = "x".repeat(200_000);
const SMALL = "x".repeat(20_000);
// Writes sent together, and how often at most until one is refused.
const TOGETHER = 16;
const ROUNDS = 5;

/** Turns dials of a container. */
async function turn(container, dials) {
  const url = `${endpoint.replace(/\/$/, "")}/_armilla/dials/dbs/${db.database.id}/colls/${container.id}`;
  const answer = await fetch(url, { method: "PUT", body: JSON.stringify(dials) });
  assert.equal(answer.status, 200);
}

/** A throttled container as a client sees it that keeps count of refusals, of requests and of bulk operations. */
async function throttled(refusals) {
  const plain = await db.container({ indexingPolicy: { indexingMode: "none", automatic: false } }, { offerThroughput: UNITS });
  await turn(plain, { throttle: "on" });
  const plugin = async (context, _diagnostics, next) => {
    try {
      const response = await next(context);
      if (Array.isArray(response.result)) {
        refusals.operations += response.result.filter((row) => row.statusCode === 429 && row.retryAfterMilliseconds > 0).length;
      }
      return response;
    } catch (error) {
      if (error.code === 429) refusals.requests += 1;
      throw error;
    }
  };
  const client = new CosmosClient({ endpoint, key, plugins: [{ on: "request", plugin }] });
  return { plain, client, container: client.database(db.database.id).container(plain.id) };
}

const names = (count) => Array.from({ length: count }, (_, number) => String(number)).sort();

test("refused writes are tried again and written once", async () => {
  const refusals = { requests: 0, operations: 0 };
  const { plain, client, container } = await throttled(refusals);
  // Writes that begin together may all be let in before the first of them is charged; what they overdraw stops
  // those that follow.
  let written = 0;
  while (refusals.requests === 0 && written < ROUNDS * TOGETHER) {
    const ids = Array.from({ length: TOGETHER }, () => String(written++));
    const made = await Promise.all(ids.map((id) => container.items.create({ id, pk: "a", f: LARGE })));
    assert.ok(made.every(({ statusCode }) => statusCode === 201));
  }
  assert.ok(refusals.requests > 0, "sixteen writes of a hundred units fit into no second of four hundred");
  await turn(plain, { throttle: "off" });
  const ids = await rows(plain, "SELECT VALUE c.id FROM c", { partitionKey: "a" });
  assert.deepEqual(ids.sort(), names(written));
  client.dispose();
});

test("bulk operations are refused and tried again one by one", async () => {
  const refusals = { requests: 0, operations: 0 };
  const { plain, client, container } = await throttled(refusals);
  const operations = names(100).map((id) => ({
    operationType: "Create",
    partitionKey: "a",
    resourceBody: { id, pk: "a", f: SMALL },
  }));
  const results = await container.items.executeBulkOperations(operations);
  await turn(plain, { throttle: "off" });
  const statuses = results.map(({ response, error }) => response?.statusCode ?? error?.code);
  assert.deepEqual(new Set(statuses), new Set([201]));
  assert.ok(refusals.operations > 0, "a hundred writes of ten units fit into no second of four hundred");
  assert.equal(refusals.requests, 0, "a bulk request is served as far as it goes");
  const ids = await rows(plain, "SELECT VALUE c.id FROM c", { partitionKey: "a" });
  assert.deepEqual(ids.sort(), names(100));
  client.dispose();
});
