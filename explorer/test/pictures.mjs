// The pictures of docs/images: every page at 1440 light and dark, and at 390, of the blog that `armilla lab blog --remote` leaves
// in the server. EXPLORER_SERVER is the binary.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { out, shrink } from "./shrink.mjs";
import { binary, client, endpoint, launch, open } from "./stage.mjs";

const ask = await client();
const database = "lab-blog";
const has = (await ask("GET", `dbs/${database}`)).status === 200;
if (!has) execFileSync(binary, ["lab", "blog", "--users", process.env.EXPLORER_USERS ?? "20", "--repeat", "1", "--remote", "--endpoint", endpoint], { stdio: "ignore" });

// An application of the first design, so that there is something to see in requests, activity, partitions and advice.
const AGENT = { "user-agent": "azsdk-java-cosmos/4.60.0" };
// What belongs together has one activity id, as tracing SDKs send it.
let activity = randomUUID();
const key = (value) => ({ "x-ms-documentdb-partitionkey": JSON.stringify([value]), "x-ms-activity-id": activity, ...AGENT });
const plain = (value) => ({ "x-ms-documentdb-partitionkey": JSON.stringify([value]) });
const query = (container, text, parameters = [], headers = {}) => ask("POST", `dbs/${database}/colls/${container}/docs`, { query: text, parameters }, { "content-type": "application/query+json", "x-ms-documentdb-isquery": "true", "x-ms-documentdb-query-enablecrosspartition": "true", "x-ms-activity-id": activity, ...AGENT, ...headers });
const posts = JSON.parse((await query("posts_v1", "SELECT TOP 60 c.id, c.userId FROM c WHERE c.type = 'post'")).text).Documents;
const first = JSON.parse((await query("feed", "SELECT TOP 1 * FROM c ORDER BY c.creationDate DESC")).text).Documents[0];
async function readPost() {
  const { id, userId } = posts[Math.floor(Math.random() ** 3 * posts.length)];
  await ask("GET", `dbs/${database}/colls/posts_v1/docs/${id}`, undefined, key(id));
  await ask("GET", `dbs/${database}/colls/users/docs/${userId}`, undefined, key(userId));
  for (const type of ["comment", "like"]) await query("posts_v1", `SELECT VALUE COUNT(1) FROM c WHERE c.postId = @post AND c.type = '${type}'`, [{ name: "@post", value: id }], key(id));
}
async function readComments() {
  const { id } = posts[Math.floor(Math.random() * 6)];
  const comments = JSON.parse((await query("posts_v1", "SELECT * FROM c WHERE c.postId = @post AND c.type = 'comment'", [{ name: "@post", value: id }], key(id))).text).Documents;
  for (const { userId } of comments) await ask("GET", `dbs/${database}/colls/users/docs/${userId}`, undefined, key(userId));
}
/** The feed of the first design: a query over all partitions, and three requests for each of its rows. */
async function readFeed() {
  const feed = JSON.parse((await query("posts_v1", "SELECT TOP 100 p.id, p.userId, p.title, LEFT(p.content, 100) AS content, p.creationDate FROM p WHERE p.type = 'post' ORDER BY p.creationDate DESC")).text).Documents;
  for (const { id, userId } of feed) {
    await ask("GET", `dbs/${database}/colls/users/docs/${userId}`, undefined, key(userId));
    for (const type of ["comment", "like"]) await query("posts_v1", `SELECT VALUE COUNT(1) FROM c WHERE c.postId = @post AND c.type = '${type}'`, [{ name: "@post", value: id }], key(id));
  }
}
let isOver = false;
const busy = (async () => {
  for (let turn = 0; !isOver; turn++) {
    activity = randomUUID();
    try { await (turn % 60 === 10 ? readFeed() : turn % 4 ? readPost() : readComments()); } catch { /* the pictures are over */ }
    await new Promise((later) => setTimeout(later, 300));
  }
})();

const db = (view, container, rest = "") => `#/db/${database}/${container}/${view}${rest}`;
const FEED = "SELECT TOP 100 p.id, p.userId, p.title, p.creationDate\nFROM p\nWHERE p.type = 'post'\nORDER BY p.creationDate DESC";
const feedQuery = db("query", "posts_v1", `?q=${encodeURIComponent(FEED)}`);
const run = async (page, tab) => {
  await page.locator(".live-dot").waitFor();
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.getByRole("tab", { name: /Rows \d/ }).waitFor();
  await page.getByRole("tab", { name: tab }).click();
};
const opened = db("items", "feed", `?id=${first.id}&key=${encodeURIComponent('["post"]')}`);
const edit = async (page) => { await page.getByRole("button", { name: "Edit" }).click(); await page.locator('.cm-content[contenteditable="true"]').first().waitFor(); };
const retype = async (page, change) => { await page.locator(".cm-content").click(); const text = await page.locator(".cm-content").innerText(); await page.keyboard.press("Control+a"); await page.keyboard.insertText(change(text)); };
async function conflict(page) {
  const now = JSON.parse((await ask("GET", `dbs/${database}/colls/feed/docs/${first.id}`, undefined, plain("post"))).text);
  await edit(page);
  await retype(page, (text) => text.replace(/"title": "[^"]*"/, '"title": "What I would call it"').replace(/"likeCount": (\d+)/, '"likeCount": $1,\n  "pinned": true'));
  await ask("PUT", `dbs/${database}/colls/feed/docs/${first.id}`, { ...now, title: `Somebody else has ${now.commentCount} comments to it`, commentCount: now.commentCount + 1 }, plain("post"));
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Somebody else has changed").waitFor();
  await page.getByText("Somebody else has changed").scrollIntoViewIfNeeded();
}
async function changes(page) {
  await page.getByText("Waiting for a change").waitFor();
  for (let number = 0; number < 9; number++) { const id = `reader-${Date.now() % 100_000}-${number}`; await ask("POST", `dbs/${database}/colls/users/docs`, { id, username: `reader ${number}` }, plain(id)); await page.waitForTimeout(250); }
  await page.locator(".feed-row").nth(3).waitFor();
}
const SHOTS = [
  ["home", "#/"], ["items", opened, async (page) => page.locator(".cm-content").first().waitFor()],
  ["item-edit", opened, async (page) => { await edit(page); await retype(page, (text) => text.replace(/"likeCount": (\d+)/, '"likeCount": $1,\n  "pinned": true')); await page.getByRole("button", { name: "Show change" }).click(); }],
  ["conflict", opened, conflict],
  ["query", feedQuery, (page) => run(page, /^Rows/)], ["plan", feedQuery, (page) => run(page, "Plan")], ["cost", feedQuery, (page) => run(page, "Cost")],
  ["partitions", db("partitions", "posts_v1"), async (page) => page.locator(".map").waitFor()], ["feed", db("feed", "users"), changes],
  ["shape", db("shape", "posts_v1"), async (page) => page.locator(".shape-table").waitFor()],
  ["scripts", db("scripts", "posts"), async (page) => { await page.locator(".side-list li button").first().click(); await page.locator(".cm-content").waitFor(); }],
  ["settings", db("settings", "posts_v1", `?composite=${encodeURIComponent('["/type ASC","/creationDate DESC"]')}`), async (page) => page.locator(".prediction").waitFor()],
  ["requests", "#/requests?view=n1", async (page) => page.locator(".sequence").first().waitFor()], ["activity", "#/activity", async (page) => page.waitForTimeout(2500)],
  ["advice", "#/advice", async (page) => page.locator(".finding").first().waitFor({ timeout: 60_000 })],
  ["lab", "#/lab", async (page) => { await page.locator(".lab").waitFor(); await page.getByRole("slider").fill("2"); await page.getByRole("slider").blur(); }],
  ["sign-in", "#ticket=none"],
];
const only = process.env.EXPLORER_ONLY?.split(","), kinds = process.env.EXPLORER_KINDS?.split(",");
const KINDS = [["1440", { width: 1440, height: 900 }, "light"], ["1440-dark", { width: 1440, height: 900 }, "dark"], ["390", { width: 390, height: 844 }, "light"], ["390-dark", { width: 390, height: 844 }, "dark"]];
const failed = [];
const browser = await launch();
try {
  // Seconds and requests to look at.
  await new Promise((later) => setTimeout(later, 15_000));
  for (const [kind, size, scheme] of KINDS)
    for (const [name, path, act] of SHOTS) {
      // Phones in the dark are looked at, not kept.
      if ((only && !only.includes(name)) || (kinds ? !kinds.includes(kind) : kind === "390-dark")) continue;
      const tabs = name === "sign-in" ? [] : ["#/", db("items", "feed"), db("query", "posts_v1", "?n=1"), db("partitions", "posts_v1"), "#/requests"].filter((one) => one.split("?")[0] !== path.split("?")[0]);
      const { page } = await open(browser.context, path, { tabs, size, scheme, wait: name === "sign-in" ? "form.sign-in" : "main .page h1" });
      try { await act?.(page); } catch (error) { failed.push(`${name} ${kind}: ${error.message.split("\n")[0]}`); }
      await page.mouse.move(size.width - 2, size.height / 2);
      await page.waitForTimeout(900);
      writeFileSync(join(out, `explorer-${name}-${kind}.png`), shrink(await page.screenshot()));
      await page.close();
    }
} finally {
  isOver = true;
  await busy;
  await browser.close();
}
console.log(failed.length ? failed.join("\n") : `pictures of ${endpoint} are in ${out}`);
process.exitCode = failed.length ? 1 : 0;
