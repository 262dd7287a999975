// People use the blog for a while, whatever happens to the servers behind it; then everything that they were told is
// looked for. ARMILLA_ENDPOINT and ARMILLA_KEY name the database server; `cargo xtask cluster --blog` runs this on
// three nodes of which one is killed, drained and added again.
//
//   node test/nodes.mjs SECONDS
import { readSettings } from "../src/settings.mjs";
import { connect, openModels } from "../src/store.mjs";
import { startBlog } from "./stage.mjs";

const PEOPLE = 4;
const MODELS = ["v2", "v3d"];
const SETTLED_WITHIN_MS = 60_000;

const seconds = Number(process.argv[2] ?? "20");
const blog = await startBlog(6);
console.log("ready");
const end = Date.now() + seconds * 1000;
const told = { posts: [], comments: [], likes: [], refused: 0, longest: 0 };
try {
  await Promise.all(MODELS.flatMap((model) => Array.from({ length: PEOPLE }, (_, number) => use(model, `${model} ${number}`))));
  const found = await look();
  console.log(JSON.stringify({
    posts: told.posts.length, comments: told.comments.length, likes: told.likes.length, refused: told.refused,
    longestMs: told.longest, wrong: found,
  }));
  if (found.length) process.exitCode = 1;
} finally {
  await blog.close();
}

/** One person: publishes, comments and likes, one after the other. */
async function use(model, name) {
  let cookie;
  const person = await insist(() => send(model, "users", { username: name }));
  cookie = person.cookie;
  while (Date.now() < end) {
    const published = await send(model, "posts", { title: `By ${name}`, content: "Words." }, cookie);
    if (!published) continue;
    const post = published.path.split("/")[1];
    told.posts.push({ model, post });
    for (let count = 0; count < 3 && Date.now() < end; count += 1) {
      if (await send(model, `posts/${post}/comments`, { content: `Comment ${count}` }, cookie)) told.comments.push({ model, post });
    }
    if (await send(model, `posts/${post}/likes`, {}, cookie)) told.likes.push({ model, post });
  }
}

/** Sends a form: where it leads and what to remember, or nothing when the blog said that it did not work. */
async function send(model, path, fields, cookie) {
  const begun = Date.now();
  const answer = await fetch(`${blog.address}/${model}/${path}`, {
    method: "POST", redirect: "manual", body: new URLSearchParams(fields), headers: cookie ? { cookie } : {},
  });
  await answer.arrayBuffer();
  told.longest = Math.max(told.longest, Date.now() - begun);
  if (answer.status !== 303) {
    told.refused += 1;
    return undefined;
  }
  const cookies = answer.headers.getSetCookie().map((line) => line.split(";")[0]).join("; ");
  return { path: answer.headers.get("location").slice(model.length + 2).split("#")[0], cookie: cookies };
}

async function insist(act) {
  for (;;) {
    const done = await act();
    if (done) return done;
  }
}

/** What is not as people were told: lost posts, lost comments, counts that are wrong, copies that do not come. */
async function look() {
  const settings = readSettings(["serve", "--database", blog.database], process.env);
  const client = connect(settings);
  const models = await openModels(client, settings);
  const wrong = [];
  for (const model of MODELS) {
    const { posts, newestPosts } = models[model];
    const all = (await posts.items.query("SELECT c.id, c.type, c.postId, c.commentCount, c.likeCount FROM c").fetchAll()).resources;
    const kinds = (type) => all.filter((item) => item.type === type);
    const stored = new Map(kinds("post").map((post) => [post.id, post]));
    const count = (items, post) => items.filter((item) => item.postId === post).length;
    const of = (list) => list.filter((item) => item.model === model);
    for (const { post } of of(told.posts)) if (!stored.has(post)) wrong.push(`${model}: post ${post} is lost`);
    for (const post of stored.values()) {
      for (const [type, counter] of [["comment", "commentCount"], ["like", "likeCount"]]) {
        const found = count(kinds(type), post.id);
        if (found !== post[counter]) wrong.push(`${model}: post ${post.id} counts ${post[counter]} of ${found} (${type})`);
      }
      const told_ = of(told.comments).filter((item) => item.post === post.id).length;
      if (count(kinds("comment"), post.id) < told_) wrong.push(`${model}: comments of ${post.id} are lost`);
    }
    if (newestPosts) wrong.push(...(await copied(newestPosts, stored.size)));
  }
  client.dispose();
  return wrong;
}

/** A declared view comes to hold the newest hundred. */
async function copied(view, posts) {
  const deadline = Date.now() + SETTLED_WITHIN_MS;
  let found;
  do {
    found = (await view.items.query("SELECT VALUE COUNT(1) FROM c").fetchAll()).resources[0];
    if (found === Math.min(posts, 100)) return [];
  } while (Date.now() < deadline);
  return [`the view of the newest posts holds ${found} of ${posts}`];
}
