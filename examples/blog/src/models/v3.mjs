// V3, a copy for each question. The change feed of `posts` carries a short copy of every post to its author's partition
// of `users` and to `feed`, which keeps the newest hundred in one partition. No page visits more than one partition.
import { operation } from "../meter.mjs";
import { LIST_LENGTH_MAX, PEOPLE_LENGTH, excerpt } from "./limits.mjs";
import { Denormalised } from "./v2.mjs";

export class Copied extends Denormalised {
  static version = "v3";
  static title = "a copy for each question";
  static summary = "Short copies live where each list reads them: one request, one partition.";
  static containers = [
    { id: "users", partitionKey: { paths: ["/userId"] }, throughput: 20_000 },
    ...Denormalised.containers.filter(({ id }) => id !== "users"),
    {
      id: "feed",
      partitionKey: { paths: ["/type"] },
      throughput: 10_000,
      scripts: [
        { kind: "trigger", id: "keepNewest", file: "keep-newest.js", triggerType: "Post", triggerOperation: "All" },
      ],
    },
  ];

  listPeople() {
    return operation("people", async () => {
      const query = `SELECT TOP ${PEOPLE_LENGTH} u.id, u.username FROM u WHERE u.type = "user" ORDER BY u.username`;
      return (await this.users.items.query(query).fetchAll()).resources;
    });
  }

  listUserPosts(userId) {
    return operation("Q3", async () => {
      const query = `SELECT TOP ${LIST_LENGTH_MAX} * FROM u WHERE u.type = "post" ORDER BY u.creationDate DESC`;
      return (await this.users.items.query(query, { partitionKey: userId }).fetchAll()).resources;
    });
  }

  readFeed() {
    return operation("Q6", async () => {
      const query = "SELECT * FROM f ORDER BY f.creationDate DESC";
      return (await this.feed.items.query(query, { partitionKey: "post" }).fetchAll()).resources;
    });
  }

  streams() {
    return [
      // `users` also holds copies of posts; only a user's own item carries a name on.
      { name: "names", source: this.users, react: async (item) => item.type === "user" && this.carryName(item) },
      { name: "copies", source: this.posts, react: async (item) => item.type === "post" && this.copyPost(item) },
    ];
  }

  /** Puts the short form of a post where the lists read it. Doing it twice does no harm. */
  async copyPost(post) {
    const { id, type, postId, userId, userUsername, title, commentCount, likeCount, creationDate } = post;
    const copy = {
      id, type, postId, userId, userUsername, title, commentCount, likeCount, creationDate,
      content: excerpt(post.content),
    };
    await Promise.all([
      this.users.items.upsert(copy),
      this.feed.items.upsert(copy, { postTriggerInclude: ["keepNewest"] }),
    ]);
  }

  userItem(user) {
    return { ...user, type: "user", userId: user.id };
  }
}
