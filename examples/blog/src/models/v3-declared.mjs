// V3 declared: the lists of V3, kept up by the server. Two views of `posts` hold the short forms, one keyed by author, one
// with the newest hundred in one partition. There is no worker, no trigger and no checkpoint; what keeps the copies
// true is their definition. A new name is carried on by the request that changes it.
import { operation } from "../meter.mjs";
import { EXCERPT_SOURCE_LENGTH, FEED_LENGTH, LIST_LENGTH_MAX } from "./limits.mjs";
import { Denormalised } from "./v2.mjs";

const COPIED = ["id", "type", "userId", "userUsername", "title", "content", "commentCount", "likeCount", "creationDate"];
const LIST = COPIED.map((name) => `c.${name}`).join(", ");
const CAUGHT_UP_WITHIN_MS = 60_000;
const LOOK_EVERY_MS = 50;

export class Declared extends Denormalised {
  static version = "v3d";
  static title = "V3 declared";
  static summary = "The lists are views: the server keeps them up, no worker does.";
  static containers = [
    ...Denormalised.containers.filter(({ id }) => id !== "checkpoints"),
    view("postsByAuthor", "/userId", `SELECT ${LIST} FROM c WHERE c.type = "post"`),
    view("newestPosts", "/type", `SELECT TOP ${FEED_LENGTH} ${LIST} FROM c WHERE c.type = "post" ORDER BY c.creationDate DESC`),
  ];

  listUserPosts(userId) {
    return operation("Q3", () => this.list(this.postsByAuthor, userId, `TOP ${LIST_LENGTH_MAX}`));
  }

  readFeed() {
    return operation("Q6", () => this.list(this.newestPosts, "post", ""));
  }

  renameUser(userId, username) {
    return operation("C1", async () => {
      await super.renameUser(userId, username);
      await this.carryName({ id: userId, username });
    });
  }

  /** Nobody follows a change feed. */
  streams() {
    return [];
  }

  /** The items of one partition of a view, newest first. A view's `id` is its own; the post's is in `_id`. */
  async list(view, key, top) {
    const columns = COPIED.filter((name) => !["id", "content"].includes(name)).map((name) => `c.${name}`).join(", ");
    const query = `SELECT ${top} c._id AS id, ${columns}, LEFT(c.content, ${EXCERPT_SOURCE_LENGTH}) AS content
                   FROM c ORDER BY c.creationDate DESC`;
    return this.completeAll((await view.items.query(query, { partitionKey: key }).fetchAll()).resources);
  }

  /** Waits until the views show so many posts. */
  async caughtUp(posts) {
    const deadline = Date.now() + CAUGHT_UP_WITHIN_MS;
    const count = async (view) => (await view.items.query("SELECT VALUE COUNT(1) FROM c").fetchAll()).resources[0];
    while ((await count(this.postsByAuthor)) < posts || (await count(this.newestPosts)) < Math.min(posts, FEED_LENGTH)) {
      if (Date.now() > deadline) throw new Error("the views do not catch up with the posts");
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }
}

/** A container that the server fills from `posts`. */
function view(id, path, definition) {
  return {
    id,
    partitionKey: { paths: [path] },
    materializedViewDefinition: { sourceCollectionId: "posts", definition },
  };
}
