// The pictures of several nodes: their partitions page at 1440 light and dark, and at 390, and what `armilla cluster status` prints.
// CLUSTER_NODES names the nodes, the owner first; CLUSTER_KEY the account's key; CLUSTER_STORE the database; EXPLORER_SERVER the binary.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { out, shrink } from "./shrink.mjs";
import { binary, launch, open } from "./stage.mjs";

const nodes = process.env.CLUSTER_NODES.split(" "), key = process.env.CLUSTER_KEY;
const owner = nodes[0].replace(/\/$/, "");
/** Asks a node as an SDK does, with the account's key. */
async function ask(node, method, path, kind, link, body, headers = {}) {
  const date = new Date().toUTCString();
  const text = `${method.toLowerCase()}\n${kind}\n${link}\n${date.toLowerCase()}\n\n`;
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
  const answer = await fetch(`${node}${path}`, { method, body: body && JSON.stringify(body), headers: { authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`), "x-ms-date": date, "x-ms-version": "2020-07-15", ...headers } });
  await answer.arrayBuffer();
  return answer.status;
}
const POSTS = "dbs/blog/colls/posts";
assert.equal(await ask(nodes[1], "POST", "dbs", "dbs", "", { id: "blog" }), 201);
assert.equal(await ask(nodes[2], "POST", "dbs/blog/colls", "colls", "dbs/blog", { id: "posts", partitionKey: { paths: ["/userId"], kind: "Hash", version: 2 } }, { "x-ms-offer-throughput": "40000" }), 201);
// An application that speaks to all nodes in turn.
const USERS = 40, ITEMS = 400;
const header = (user) => ({ "x-ms-documentdb-partitionkey": JSON.stringify([`user-${user}`]) });
for (let at = 0; at < ITEMS; at++) assert.equal(await ask(nodes[at % 3], "POST", `${POSTS}/docs`, "docs", POSTS, { id: `post-${at}`, userId: `user-${at % USERS}`, title: `Post ${at}`, content: "words ".repeat(20 + (at % 30)) }, header(at % USERS)), 201);
let isOver = false;
const busy = (async () => {
  for (let at = 0; !isOver; at++) {
    const post = Math.floor(Math.random() ** 3 * ITEMS);
    await ask(nodes[at % 3], "GET", `${POSTS}/docs/post-${post}`, "docs", `${POSTS}/docs/post-${post}`, undefined, header(post % USERS));
    await new Promise((later) => setTimeout(later, 15));
  }
})();
const made = await fetch(`${owner}/_armilla/session`, { method: "POST", body: JSON.stringify({ key }) });
assert.equal(made.status, 201);
const { token } = await made.json();
const browser = await launch();
try {
  const place = "#/db/blog/posts/partitions";
  // At a node that does not own the account the page says where to go.
  const { page: elsewhere } = await open(browser.context, place, { endpoint: nodes[1].replace(/\/$/, ""), wait: "form.sign-in" });
  await elsewhere.getByLabel("Account key or connection string").fill(key);
  await elsewhere.getByRole("button", { name: "Sign in" }).click();
  await elsewhere.getByText(`sign in at ${owner}/_explorer/`).waitFor();
  await elsewhere.close();
  await browser.context.addInitScript((token) => sessionStorage.setItem("armilla-session", token), token);
  await new Promise((later) => setTimeout(later, 4000));
  for (const [kind, size, scheme] of [["1440", { width: 1440, height: 900 }, "light"], ["1440-dark", { width: 1440, height: 900 }, "dark"], ["390", { width: 390, height: 844 }, "light"]]) {
    const { page, errors } = await open(browser.context, place, { endpoint: owner, size, scheme });
    await page.getByRole("heading", { name: "Nodes" }).waitFor();
    assert.equal(await page.getByRole("group", { name: "Nodes" }).getByRole("row").count(), 1 + nodes.length);
    await page.locator(".map .range").nth(3).waitFor();
    // Below the bars that stay at the top.
    if (size.width < 700) await page.getByRole("heading", { name: "Nodes" }).evaluate((heading) => scrollTo(0, heading.getBoundingClientRect().top + scrollY - 300));
    await page.mouse.move(size.width - 2, size.height / 2);
    await page.waitForTimeout(900);
    writeFileSync(join(out, `explorer-cluster-${kind}.png`), shrink(await page.screenshot()));
    assert.deepEqual(errors, []);
    await page.close();
  }
  const { page: home } = await open(browser.context, "#/", { endpoint: owner });
  await home.getByRole("button", { name: "Show the key" }).click();
  await home.getByText("AccountKey=<as armilla cluster init has printed it>;").waitFor();
  await home.close();
  // What the terminal shows, on a page of its own.
  const said = execFileSync(binary, ["cluster", "status", "--store", process.env.CLUSTER_STORE], { encoding: "utf8" });
  const terminal = await browser.context.newPage();
  await terminal.setViewportSize({ width: 1000, height: 400 });
  await terminal.setContent('<body style="margin:0;background:#15181b"><pre style="display:inline-block;margin:0;padding:16px 20px;color:#e4e7e9;font:14px/1.5 ui-monospace,Menlo,Consolas,monospace"></pre>');
  await terminal.locator("pre").evaluate((block, text) => { block.textContent = text; }, `$ armilla cluster status\n${said}`);
  writeFileSync(join(out, "cluster-status.png"), shrink(await terminal.locator("pre").screenshot()));
  console.log(said);
} finally {
  isOver = true;
  await busy;
  await browser.close();
}
