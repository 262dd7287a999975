// Fills the databases with the same sample data, each in the shape of its model. V3's copies are not loaded: its
// change-feed worker makes them, reading `posts` from the beginning, as it would in a system that has long been running. Those of V3 declared
// are made by the server, and waited for.
import { BulkOperationType } from "@azure/cosmos";
import { sample } from "./seed/sample.mjs";
import { Worker } from "./worker.mjs";

/** Whether a model has no users yet. */
export async function isEmpty(model) {
  const { resources } = await model.users.items.query("SELECT TOP 1 VALUE 1 FROM u").fetchAll();
  return resources.length === 0;
}

/** Loads one model; `say` is told what happened. */
export async function seed(model, userCount, say) {
  const started = performance.now();
  const { users, posts } = sample(userCount);
  const names = new Map(users.map((user) => [user.id, user.username]));
  const denormalised = model.version !== "v1";
  await load(model.users, users.map((user) => model.userItem(user)), (user) => user.id);
  const items = posts.flatMap((post) => itemsOf(post, denormalised ? names : undefined));
  await load(model.posts, items, (item) => item.postId);
  const worker = new Worker(model);
  await worker.catchUp();
  await model.caughtUp?.(posts.length);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const copied = worker.done.changes ? `, ${worker.done.changes} changes followed` : "";
  say(`${model.version}: ${users.length} users, ${posts.length} posts, ${items.length - posts.length} comments and likes${copied} (${seconds} s)`);
}

/** The items of a post's logical partition; with names and counts where `names` is given. */
function itemsOf({ comments, likes, ...post }, names) {
  const named = (item) => (names ? { ...item, userUsername: names.get(item.userId) } : item);
  const counts = names ? { commentCount: comments.length, likeCount: likes.length } : {};
  return [
    named({ ...post, type: "post", postId: post.id, ...counts }),
    ...comments.map((comment) => named({ ...comment, type: "comment", postId: post.id })),
    ...likes.map((like) => named({ ...like, type: "like", postId: post.id })),
  ];
}

async function load(container, items, keyOf) {
  const operations = items.map((item) => ({
    operationType: BulkOperationType.Upsert,
    partitionKey: keyOf(item),
    resourceBody: item,
  }));
  const results = await container.items.executeBulkOperations(operations);
  const failed = results.find(({ error }) => error);
  if (failed) throw new Error(`${container.id}: an item was refused: ${failed.error.message}`);
}
