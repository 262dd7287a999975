// V2, denormalised. A post carries its author's name and its counts, comments and likes carry names. Reading a post is
// one request. Two things keep the copies true: a stored procedure adds a comment or a like and counts it in one
// transaction, and the change feed of `users` carries a new name to everything its owner wrote.
import { randomUUID } from "node:crypto";
import { gather } from "../gather.mjs";
import { operation } from "../meter.mjs";
import { excerpt } from "./limits.mjs";
import { Normalised, likeItem, stamp } from "./v1.mjs";

export class Denormalised extends Normalised {
  static version = "v2";
  static title = "denormalised";
  static summary = "Posts carry names and counts; lists still visit every partition.";
  static containers = [
    { id: "users", partitionKey: { paths: ["/id"] }, throughput: 20_000 },
    {
      id: "posts",
      partitionKey: { paths: ["/postId"] },
      throughput: 40_000,
      scripts: [
        { kind: "procedure", id: "addToPost", file: "add-to-post.js" },
        { kind: "procedure", id: "renameAuthor", file: "rename-author.js" },
      ],
    },
    { id: "checkpoints", partitionKey: { paths: ["/id"] } },
  ];

  addComment(postId, userId, content) {
    return operation("C3", async () => {
      const comment = { ...stamp(randomUUID(), "comment", postId, userId), content };
      await this.addToPost(postId, comment, "commentCount");
      return comment.id;
    });
  }

  like(postId, userId) {
    return operation("C4", async () => this.addToPost(postId, likeItem(postId, userId), "likeCount"));
  }

  /** Whether it was added; a like that is there already is not. */
  async addToPost(postId, item, counter) {
    const { username } = await this.author(item.userId);
    const procedure = this.posts.scripts.storedProcedure("addToPost");
    const { resource } = await procedure.execute(postId, [postId, { ...item, userUsername: username }, counter]);
    return resource.added;
  }

  streams() {
    return [{ name: "names", source: this.users, react: (user) => this.carryName(user) }];
  }

  /**
   * Writes a user's name into everything the user wrote. A procedure sees one logical partition, so it runs once for
   * each post that has something of this user.
   */
  async carryName({ id, username }) {
    const query = {
      query: "SELECT DISTINCT VALUE p.postId FROM p WHERE p.userId = @userId AND p.userUsername != @username",
      parameters: [{ name: "@userId", value: id }, { name: "@username", value: username }],
    };
    const { resources: postIds } = await this.posts.items.query(query).fetchAll();
    const procedure = this.posts.scripts.storedProcedure("renameAuthor");
    await gather(postIds, async (postId) => {
      let answer;
      do {
        answer = (await procedure.execute(postId, [id, username])).resource;
      } while (answer.more);
    });
  }

  async newPost(post) {
    const { username } = await this.author(post.userId);
    return { ...post, userUsername: username, commentCount: 0, likeCount: 0 };
  }

  async author(userId) {
    const { resource } = await this.users.item(userId, userId).read();
    if (!resource) throw Object.assign(new Error("There is no such user."), { code: 404 });
    return resource;
  }

  shortForm(name) {
    return `${super.shortForm(name)}, ${name}.userUsername, ${name}.commentCount, ${name}.likeCount`;
  }

  async complete(post) {
    return post;
  }

  async completeAll(posts) {
    return posts.map((post) => ({ ...post, content: excerpt(post.content ?? "") }));
  }

  async withNames(items) {
    return items;
  }
}

