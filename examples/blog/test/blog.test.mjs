// What a visitor can do, in a real browser, on each model: read, write, comment, like, rename.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { useStage } from "./stage.mjs";
import { VERSIONS } from "../src/settings.mjs";
import { sample } from "../src/seed/sample.mjs";

const USERS = 34;
/** What follows a change through the change feed may take this long on a busy machine. */
const FOLLOW_WITHIN_MS = 30_000;
const FEED_LENGTH = 100;

const data = sample(USERS);
const newest = data.posts.at(-1);
const byName = (id) => data.users.find((user) => user.id === id).username;
const stage = useStage(USERS);

/** A page of a visitor of its own; with `as`, one who has chosen to be that user. */
async function visit(version, path, as) {
  const context = await stage.browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  if (as) {
    await page.goto(`${stage.address}/${version}/users/${as}`);
    await page.getByRole("button", { name: /^Write as/ }).click();
    await page.getByText("You are writing as").waitFor();
  }
  await page.goto(`${stage.address}/${version}/${path}`);
  return page;
}

const html = async (version, path) => (await fetch(`${stage.address}/${version}/${path}`)).text();

/** Asks again until the answer is right; the last answer is in the error. */
async function eventually(ask, isRight) {
  const deadline = Date.now() + FOLLOW_WITHIN_MS;
  for (;;) {
    const answer = await ask();
    if (isRight(answer)) return answer;
    if (Date.now() > deadline) assert.fail(`still not right: ${JSON.stringify(answer).slice(0, 500)}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function cost(page) {
  const figures = await page.locator("[data-cost]").evaluate((element) => ({ ...element.dataset }));
  return { requests: +figures.requests, charge: +figures.charge, partitions: +figures.partitions };
}

const count = async (page, name) => Number(await page.locator(`[data-${name}]`).getAttribute(`data-${name}`));

for (const version of VERSIONS) {
  describe(version, () => {
    test("a reader goes from the feed to a post to its author", async () => {
      const page = await visit(version, "");
      assert.equal(await page.locator(".entry").count(), FEED_LENGTH);
      const titles = await page.locator(".entry h3").allInnerTexts();
      assert.deepEqual(titles, data.posts.slice(-FEED_LENGTH).map((post) => post.title).reverse());
      await page.getByRole("link", { name: newest.title, exact: true }).first().click();
      await page.getByRole("heading", { level: 1, name: newest.title }).waitFor();
      assert.equal(await count(page, "comment-count"), newest.comments.length);
      assert.equal(await count(page, "like-count"), newest.likes.length);
      assert.deepEqual(
        await page.locator(".comment .byline-small a").allInnerTexts(),
        newest.comments.map((comment) => byName(comment.userId)),
      );
      const { requests, charge, partitions } = await cost(page);
      assert.ok(requests >= 3 && charge > 3 && partitions >= 1);
      await page.locator("[data-author]").click();
      await page.getByRole("heading", { level: 1, name: byName(newest.userId) }).waitFor();
      const own = data.posts.filter((post) => post.userId === newest.userId).map((post) => post.title).reverse();
      assert.deepEqual(await page.locator(".entry h2").allInnerTexts(), own);
      await page.context().close();
    });

    test("a newcomer joins and writes, and the feed stays at a hundred", async () => {
      const page = await visit(version, "");
      await page.getByRole("link", { name: "Write", exact: true }).click();
      await page.getByLabel("Your name").fill("Ada Newcomer");
      await page.getByRole("button", { name: "Join" }).click();
      await page.getByLabel("Title").fill("Rings & <circles>");
      await page.getByLabel("Text").fill("The first paragraph.\n\nThe second, with <b>no</b> bold.");
      await page.getByRole("button", { name: "Publish" }).click();
      await page.getByRole("heading", { level: 1, name: "Rings & <circles>" }).waitFor();
      assert.match(await page.getByRole("status").innerText(), /Published[\s\S]*RU/);
      assert.deepEqual(await page.locator(".prose p").allInnerTexts(), [
        "The first paragraph.", "The second, with <b>no</b> bold.",
      ]);
      await eventually(() => html(version, ""), (text) => text.includes("Rings &#38; &#60;circles&#62;"));
      await page.goto(`${stage.address}/${version}/`);
      const titles = await page.locator(".entry h3").allInnerTexts();
      assert.equal(titles.length, FEED_LENGTH);
      assert.equal(titles[0], "Rings & <circles>");
      assert.equal(titles.at(-1), data.posts.at(-FEED_LENGTH + 1).title);
      await page.context().close();
    });

    test("a comment is added and counted", async () => {
      const page = await visit(version, `posts/${newest.id}`, "u0003");
      await page.getByLabel("Comment as").fill("Read on a train, twice.");
      await page.getByRole("button", { name: "Add the comment" }).click();
      await page.getByText("Your comment was added").waitFor();
      assert.equal(await page.locator(".comment").last().innerText().then((text) => text.includes("twice.")), true);
      assert.equal(await count(page, "comment-count"), newest.comments.length + 1);
      const inFeed = new RegExp(`${newest.id}"[\\s\\S]*?<span>${newest.comments.length + 1} comment`);
      await eventually(() => html(version, ""), (text) => inFeed.test(text));
      await page.context().close();
    });

    test("a like counts once, and a post that left the feed stays out of it", async () => {
      const oldest = data.posts[0];
      const fan = data.users.find((user) => !oldest.likes.some((like) => like.userId === user.id));
      const page = await visit(version, `posts/${oldest.id}`, fan.id);
      await page.getByRole("button", { name: "Like" }).click();
      await page.getByText("You like this post").waitFor();
      assert.equal(await count(page, "like-count"), oldest.likes.length + 1);
      assert.ok(await page.getByRole("button", { name: "Liked" }).isDisabled());
      // The form sent once more, as an impatient reader would.
      const again = await page.request.post(`${stage.address}/${version}/posts/${oldest.id}/likes`, { form: {} });
      assert.match(await again.text(), /You liked this post before/);
      await page.reload();
      assert.equal(await count(page, "like-count"), oldest.likes.length + 1);
      // In V3 and V3 declared the change reaches the author's copy, and the feed lets it go again.
      const likes = new RegExp(`${oldest.id}"[\\s\\S]*?<span>${oldest.likes.length + 1} like`);
      await eventually(() => html(version, `users/${oldest.userId}`), (text) => likes.test(text));
      const feed = await html(version, "");
      assert.ok(!feed.includes(`posts/${oldest.id}"`));
      assert.match(feed, /data-feed="100"/);
      await page.context().close();
    });

    test("many likes at once are all counted", async () => {
      const post = data.posts.at(-3);
      const fans = data.users.filter((user) => !post.likes.some((like) => like.userId === user.id));
      const answers = await Promise.all(fans.map(({ id, username }) =>
        fetch(`${stage.address}/${version}/posts/${post.id}/likes`, {
          method: "POST", redirect: "manual", headers: { cookie: `reader=is=${id}&is=${encodeURIComponent(username)}` },
        }),
      ));
      assert.deepEqual([...new Set(answers.map((answer) => answer.status))], [303]);
      const page = await visit(version, `posts/${post.id}`);
      assert.equal(await count(page, "like-count"), data.users.length);
      assert.equal(await page.locator(".likers a").count(), data.users.length);
      await page.context().close();
    });

    test("a new name appears everywhere", async () => {
      const { userId } = data.posts.at(-2);
      const [before, name] = [byName(userId), `Renamed in ${version.toUpperCase()}`];
      const page = await visit(version, `users/${userId}`, userId);
      await page.getByText("Change this name").click();
      await page.getByLabel("New name").fill(name);
      await page.getByRole("button", { name: "Change it everywhere" }).click();
      await page.getByRole("heading", { level: 1, name }).waitFor();
      assert.equal(await page.locator(".writer .as").innerText(), name);
      const touches = (list) => list.some((each) => each.userId === userId);
      const written = data.posts.filter((post) => post.userId === userId);
      const commented = data.posts.filter((post) => touches(post.comments)).slice(-4);
      const liked = data.posts.filter((post) => touches(post.likes)).slice(-4);
      const paths = ["", "people", `users/${userId}`, ...[...written, ...commented, ...liked].map((post) => `posts/${post.id}`)];
      for (const path of new Set(paths)) {
        await eventually(() => html(version, path), (text) => text.includes(name) && !text.includes(before));
      }
      await page.context().close();
    });
  });
}

test("the switch stays on the page, and each model asks less of the server", async () => {
  const page = await visit("v1", "");
  const costs = {};
  for (const version of VERSIONS) {
    await page.getByRole("navigation", { name: "Data model" }).getByText(version.toUpperCase(), { exact: true }).click();
    await page.waitForURL(`**/${version}/`);
    costs[version] = await cost(page);
  }
  assert.ok(costs.v1.requests > 200 && costs.v1.charge > costs.v2.charge, JSON.stringify(costs));
  assert.ok(costs.v2.charge > costs.v3.charge && costs.v2.partitions > 1, JSON.stringify(costs));
  assert.deepEqual([costs.v3.requests, costs.v3.partitions], [1, 1]);
  assert.deepEqual([costs.v3d.requests, costs.v3d.partitions], [1, 1]);
  await page.goto(`${stage.address}/v3/posts/${newest.id}`);
  await page.getByRole("navigation", { name: "Data model" }).getByText("V1", { exact: true }).click();
  await page.getByRole("heading", { level: 1, name: newest.title }).waitFor();
  await page.locator(".receipt summary").click();
  assert.match(await page.locator(".receipt table").innerText(), /Q2[\s\S]*Q4[\s\S]*Q5/);
  await page.context().close();
});

test("the comparison measures six requests on each model", async () => {
  const page = await visit("v2", "compare");
  assert.equal(await page.locator(".comparison td").count(), 6 * VERSIONS.length);
  const amounts = await page.locator(".comparison tr:last-child .amount").allInnerTexts();
  const [v1, v2, v3, v3d] = amounts.map((text) => Number.parseFloat(text.replaceAll(",", "")));
  assert.ok(v1 > v2 && v2 > v3 && v2 > v3d, amounts.join(" "));
  await page.context().close();
});

test("what is not there is said so", async () => {
  const page = await visit("v2", "posts/never-written");
  await page.getByText("not in this model").waitFor();
  assert.equal((await fetch(`${stage.address}/v9/`)).status, 404);
  assert.equal((await fetch(`${stage.address}/v1/posts/p0001/comments`, { method: "POST" })).status, 400);
  const stranger = { method: "POST", headers: { origin: "http://elsewhere.example" }, body: "content=x" };
  assert.equal((await fetch(`${stage.address}/v1/posts/p0001/comments`, stranger)).status, 403);
  await page.context().close();
});
