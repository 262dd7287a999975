// The change-feed worker without pages: it goes on where it stopped, and what broke is tried again.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { readSettings } from "../src/settings.mjs";
import { connect, dropModels, openModels } from "../src/store.mjs";
import { seed } from "../src/seed.mjs";
import { Worker } from "../src/worker.mjs";

const settings = readSettings(["serve", "--database", `blog-worker-${randomUUID().slice(0, 8)}`], process.env);
const client = connect(settings);
let model;

before(async () => {
  model = (await openModels(client, settings)).v3;
  await seed(model, 4, () => {});
});

after(async () => {
  await dropModels(client, settings);
  client.dispose();
});

test("a worker that starts later follows only what it has not seen", async () => {
  await model.renameUser("u0002", "Tomás the Second");
  const worker = new Worker(model);
  await worker.catchUp();
  const [own] = await model.listUserPosts("u0002");
  assert.equal(own.userUsername, "Tomás the Second");
  const feed = (await model.readFeed()).filter((post) => post.userId === "u0002");
  assert.deepEqual([...new Set(feed.map((post) => post.userUsername))], ["Tomás the Second"]);
  assert.ok(worker.done.changes > 0);

  const later = new Worker(model);
  await later.catchUp();
  assert.equal(later.done.changes, 0);
});

test("a change whose work broke is read again", async () => {
  const id = await model.writePost("u0001", "Written while the worker was ill", "And copied when it was well.");
  const copyPost = model.copyPost;
  model.copyPost = async () => {
    throw new Error("ill");
  };
  await assert.rejects(new Worker(model).catchUp(), /ill/);
  model.copyPost = copyPost;
  assert.ok(!(await model.readFeed()).some((post) => post.id === id));
  await new Worker(model).catchUp();
  assert.equal((await model.readFeed())[0].id, id);
  assert.equal((await model.listUserPosts("u0001"))[0].id, id);
});

test("a comment on a post that is not there leaves nothing behind", async () => {
  await assert.rejects(model.addComment("never-written", "u0001", "Hello?"), (error) => error.code >= 400);
  assert.deepEqual(await model.listComments("never-written"), []);
});
