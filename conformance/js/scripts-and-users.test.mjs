// Proves stored procedures, triggers, user functions, and resource tokens through the JavaScript SDK.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CosmosClient } from "@azure/cosmos";
import { endpoint, newName, refused, rows, useDatabase } from "./server.mjs";

const own = await useDatabase();

// Runs inside the server.
function addLike(postId, like) {
  const container = getContext().getCollection();
  container.readDocument(`${container.getAltLink()}/docs/${postId}`, (error, post) => {
    if (error) throw error;
    post.likeCount += 1;
    container.replaceDocument(post._self, post, (error) => {
      if (error) throw error;
      container.createDocument(container.getSelfLink(), { ...like, pk: postId }, (error) => {
        if (error) throw error;
        getContext().getResponse().setBody(post.likeCount);
      });
    });
  });
}

test("a stored procedure counts right under concurrent callers", async () => {
  const container = await own.container();
  await container.items.create({ id: "post", pk: "post", likeCount: 0 });
  await container.scripts.storedProcedures.create({ id: "addLike", body: addLike });
  const procedure = container.scripts.storedProcedure("addLike");
  const calls = Array.from({ length: 40 }, (_, n) => procedure.execute("post", ["post", { id: `like ${n}` }]));
  const answers = await Promise.all(calls);
  const counts = answers.map((answer) => answer.resource).toSorted((a, b) => a - b);
  assert.deepEqual(counts, Array.from({ length: 40 }, (_, n) => n + 1));
  // One that fails half way leaves no trace.
  await refused(procedure.execute("post", ["post", { id: "like 3" }]));
  assert.equal((await container.item("post", "post").read()).resource.likeCount, 40);
  assert.deepEqual(await rows(container, "SELECT VALUE COUNT(1) FROM c WHERE c.id != 'post'"), [40]);
});

test("scripts live and die", async () => {
  const container = await own.container();
  const { storedProcedures, triggers, userDefinedFunctions } = container.scripts;
  await storedProcedures.create({ id: "s", body: "function () { getContext().getResponse().setBody(1); }" });
  assert.equal((await refused(storedProcedures.create({ id: "s", body: "function () {}" }))).code, 409);
  await container.scripts.storedProcedure("s").replace({
    id: "s", body: "function () { getContext().getResponse().setBody({ now: 'two' }); }",
  });
  assert.deepEqual((await container.scripts.storedProcedure("s").execute("p")).resource, { now: "two" });
  assert.equal((await storedProcedures.readAll().fetchAll()).resources.length, 1);
  await container.scripts.storedProcedure("s").delete();
  assert.equal((await refused(container.scripts.storedProcedure("s").read())).code, 404);

  await triggers.create({
    id: "t", triggerType: "Pre", triggerOperation: "Create",
    body: "function () { var r = getContext().getRequest(); var b = r.getBody(); b.by = 't'; r.setBody(b); }",
  });
  const created = await container.items.create({ id: "a", pk: "p" }, { preTriggerInclude: "t" });
  assert.equal(created.resource.by, "t");
  await userDefinedFunctions.create({ id: "f", body: "function (x) { return x + '!'; }" });
  assert.deepEqual(await rows(container, "SELECT VALUE udf.f(c[\"by\"]) FROM c", { partitionKey: "p" }), ["t!"]);
});

test("the script log comes back", async () => {
  const container = await own.container();
  await container.scripts.storedProcedures.create({ id: "log", body: "function () { console.log('to the log'); }" });
  const answer = await container.scripts.storedProcedure("log").execute("p", [], { enableScriptLogging: true });
  assert.match(decodeURIComponent(answer.headers["x-ms-documentdb-script-log-results"]), /to the log/);
});

test("a resource token opens its container for reading and nothing else", async () => {
  const container = await own.container();
  await container.items.create({ id: "a", pk: "p" });
  const { user } = await own.database.users.create({ id: newName("user") });
  const { resource } = await user.permissions.create({
    id: "read", permissionMode: "read", resource: container.url,
  });
  assert.match(resource._token, /^type=resource&ver=1\.0&sig=/);
  const guest = new CosmosClient({ endpoint, resourceTokens: { [container.url]: resource._token } });
  const seen = guest.database(own.database.id).container(container.id);
  assert.equal((await seen.item("a", "p").read()).resource?.id, "a");
  assert.equal((await refused(seen.items.create({ id: "b", pk: "p" }))).code, 403);
  assert.ok([401, 403].includes((await refused(guest.databases.create({ id: "never" }))).code));
  guest.dispose();
  await user.delete();
});

test("a wrong key is refused", async () => {
  const stranger = new CosmosClient({ endpoint, key: Buffer.from("x".repeat(64)).toString("base64") });
  assert.equal((await refused(stranger.databases.readAll().fetchAll())).code, 401);
  stranger.dispose();
});
