// V1, normalised. Every fact is kept once: a post has its author's id and nothing about its comments or likes. Writing
// is cheap; every page must look up names, count comments and likes, and the lists visit every partition.
import { randomUUID } from "node:crypto";
import { gather } from "../gather.mjs";
import { operation } from "../meter.mjs";
import { EXCERPT_SOURCE_LENGTH, FEED_LENGTH, LIST_LENGTH_MAX, PEOPLE_LENGTH, excerpt } from "./limits.mjs";

export class Normalised {
  static version = "v1";
  static title = "normalised";
  static summary = "Every fact is kept once, so each page goes looking for names and counts.";
  static containers = [
    { id: "users", partitionKey: { paths: ["/id"] }, throughput: 20_000 },
    { id: "posts", partitionKey: { paths: ["/postId"] }, throughput: 40_000 },
  ];

  constructor(containers) {
    Object.assign(this, containers);
    this.version = this.constructor.version;
  }

  /** C1: create a user. */
  createUser(username) {
    return operation("C1", async () => {
      const user = this.userItem({ id: randomUUID(), username });
      await this.users.items.create(user);
      return user;
    });
  }

  /** C1: edit a user. */
  renameUser(userId, username) {
    return operation("C1", async () => {
      await this.users.item(userId, userId).patch([{ op: "set", path: "/username", value: username }]);
    });
  }

  /** Q1: read a user; undefined when there is none. */
  readUser(userId) {
    return operation("Q1", async () => (await this.users.item(userId, userId).read()).resource);
  }

  /** Not one of the ten: names to choose from. */
  listPeople() {
    return operation("people", async () => {
      const query = `SELECT TOP ${PEOPLE_LENGTH} u.id, u.username FROM u ORDER BY u.username`;
      return (await this.users.items.query(query).fetchAll()).resources;
    });
  }

  /** C2: create a post. Returns its id. */
  writePost(userId, title, content) {
    return operation("C2", async () => {
      const id = randomUUID();
      await this.posts.items.create(await this.newPost({ ...stamp(id, "post", id, userId), title, content }));
      return id;
    });
  }

  /** Q2: read a post with its author's name and its counts; undefined when there is none. */
  readPost(postId) {
    return operation("Q2", async () => {
      const { resource } = await this.posts.item(postId, postId).read();
      return resource && this.complete(resource);
    });
  }

  /** Q3: a user's posts in short form, newest first. */
  listUserPosts(userId) {
    return operation("Q3", async () => {
      const query = {
        query: `SELECT TOP ${LIST_LENGTH_MAX} ${this.shortForm("p")} FROM p
                WHERE p.type = "post" AND p.userId = @userId ORDER BY p.creationDate DESC`,
        parameters: [{ name: "@userId", value: userId }],
      };
      return this.completeAll((await this.posts.items.query(query).fetchAll()).resources);
    });
  }

  /** C3: add a comment. Returns its id. */
  addComment(postId, userId, content) {
    return operation("C3", async () => {
      const comment = { ...stamp(randomUUID(), "comment", postId, userId), content };
      await this.posts.items.create(comment);
      return comment.id;
    });
  }

  /** Q4: a post's comments with the names of their writers, oldest first. */
  listComments(postId) {
    return operation("Q4", async () => this.withNames(await this.parts(postId, "comment")));
  }

  /** C4: like a post; false when this user likes it already. */
  like(postId, userId) {
    return operation("C4", async () => {
      try {
        await this.posts.items.create(likeItem(postId, userId));
        return true;
      } catch (error) {
        if (error.code === 409) return false;
        throw error;
      }
    });
  }

  /** Q5: who likes a post, in the order they came. */
  listLikes(postId) {
    return operation("Q5", async () => this.withNames(await this.parts(postId, "like")));
  }

  /** Q6: the newest posts of everybody in short form. */
  readFeed() {
    return operation("Q6", async () => {
      const query = `SELECT TOP ${FEED_LENGTH} ${this.shortForm("p")} FROM p
                     WHERE p.type = "post" ORDER BY p.creationDate DESC`;
      return this.completeAll((await this.posts.items.query(query).fetchAll()).resources);
    });
  }

  /** The change-feed streams that keep this model's copies up to date: none, there are no copies. */
  streams() {
    return [];
  }

  // What the later models do differently.

  userItem(user) {
    return user;
  }

  /** The item of a new post. */
  async newPost(post) {
    return post;
  }

  /** The properties of a post in a list. */
  shortForm(name) {
    return `${name}.id, ${name}.userId, ${name}.title, ${name}.creationDate, LEFT(${name}.content, ${EXCERPT_SOURCE_LENGTH}) AS content`;
  }

  /** Adds the author's name and the counts: one read and two queries. */
  async complete(post) {
    const [author, commentCount, likeCount] = await Promise.all([
      this.users.item(post.userId, post.userId).read(),
      this.count(post.id, "comment"),
      this.count(post.id, "like"),
    ]);
    return { ...post, userUsername: nameOf(author.resource), commentCount, likeCount };
  }

  /** The same for a list; each author is looked up once. */
  async completeAll(posts) {
    const named = await this.withNames(posts);
    return gather(named, async (post) => {
      const [commentCount, likeCount] = await Promise.all([this.count(post.id, "comment"), this.count(post.id, "like")]);
      return { ...post, content: excerpt(post.content), commentCount, likeCount };
    });
  }

  /** Adds `userUsername` to items that have only a `userId`. */
  async withNames(items) {
    const ids = [...new Set(items.map((item) => item.userId))];
    const users = await gather(ids, (id) => this.users.item(id, id).read());
    const names = new Map(ids.map((id, index) => [id, nameOf(users[index].resource)]));
    return items.map((item) => ({ ...item, userUsername: names.get(item.userId) }));
  }

  async count(postId, type) {
    const query = {
      query: "SELECT VALUE COUNT(1) FROM p WHERE p.postId = @postId AND p.type = @type",
      parameters: [{ name: "@postId", value: postId }, { name: "@type", value: type }],
    };
    return (await this.posts.items.query(query, { partitionKey: postId }).fetchAll()).resources[0];
  }

  /** The comments or the likes of a post, oldest first. */
  async parts(postId, type) {
    const query = {
      query: `SELECT TOP ${LIST_LENGTH_MAX} * FROM p WHERE p.postId = @postId AND p.type = @type ORDER BY p.creationDate`,
      parameters: [{ name: "@postId", value: postId }, { name: "@type", value: type }],
    };
    return (await this.posts.items.query(query, { partitionKey: postId }).fetchAll()).resources;
  }
}

/** What every item of `posts` has. */
export function stamp(id, type, postId, userId) {
  return { id, type, postId, userId, creationDate: new Date().toISOString() };
}

/** A user likes a post once: the id says so, and the server refuses the second. */
export function likeItem(postId, userId) {
  return stamp(`like-${userId}`, "like", postId, userId);
}

function nameOf(user) {
  return user?.username ?? "somebody who left";
}
