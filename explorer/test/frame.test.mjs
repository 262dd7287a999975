// The frame and the keyboard: tree, grid, tabs, palette, status bar; and what the pages tell of requests, plans and settings.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { binary, client, endpoint, fill, launch, open, ownServer, violations, write } from "./stage.mjs";

const database = `frame-${randomUUID().slice(0, 8)}`;
let browser, ask;
const db = (view, container = "posts", rest = "") => `#/db/${database}/${encodeURIComponent(container)}/${view}${rest}`;
before(async () => {
  ask = await client();
  await fill(ask, database, 60);
  browser = await launch();
}, { timeout: 120_000 });
after(async () => { await browser?.close(); await ask?.("DELETE", `dbs/${database}`); });
const shown = (page) => page.locator('[role="tabpanel"]:not([hidden])');
const focused = (page) => page.evaluate(() => document.activeElement?.textContent?.trim() ?? "");
const docs = (container = "posts") => `dbs/${database}/colls/${container}/docs`;
const run = (page) => shown(page).getByRole("button", { name: /^Run/ }).click();

test("the tree goes by keyboard: open, close, letters, along its views", async () => {
  const { page, errors } = await open(browser.context, db("items"));
  const item = page.getByRole("treeitem", { name: /^posts/ }).and(page.locator('[aria-expanded="true"]'));
  await item.focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await focused(page), "Items");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(page), "Query");
  await page.keyboard.press("s");
  assert.equal(await focused(page), "Shape");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Shape of posts" }).waitFor();
  await page.keyboard.press("ArrowLeft");
  assert.match(await focused(page), /^posts/);
  await page.keyboard.press("ArrowLeft");
  await page.getByRole("treeitem", { name: "Query" }).waitFor({ state: "detached" });
  await page.keyboard.press("ArrowLeft");
  assert.match(await focused(page), new RegExp(database));
  // One of them all can be reached with Tab.
  assert.equal(await page.locator('[role="treeitem"][tabindex="0"]').count(), 1);
  assert.deepEqual(errors, []);
  await page.close();
});

test("the grid goes by keyboard: rows, choosing, opening", async () => {
  const { page, errors } = await open(browser.context, db("items"));
  const grid = page.getByRole("grid", { name: "Items" });
  await grid.getByRole("row").nth(1).getByRole("button").focus();
  const first = await focused(page);
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction((before) => document.activeElement?.textContent?.trim() !== before, first);
  const second = await focused(page);
  assert.notEqual(second, first);
  await page.keyboard.press(" ");
  await page.getByRole("button", { name: "Download 1" }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: second, exact: true }).waitFor();
  await grid.getByRole("checkbox", { name: /Choose all/ }).check();
  await page.getByRole("button", { name: "Download 60" }).waitFor();
  assert.equal(await grid.locator('[role="gridcell"] button[tabindex="0"]').count(), 1);
  assert.deepEqual(errors, []);
  await page.close();
});

test("columns come from the shape, also from inside of objects; order only where an index can", async () => {
  await ask("POST", `dbs/${database}/colls`, { id: "nested", partitionKey: { paths: ["/who/team"], kind: "Hash", version: 2 }, indexingPolicy: { indexingMode: "consistent", automatic: true, includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/hidden/*" }] } });
  await ask("POST", docs("nested"), { id: "a", who: { team: "t", name: "Ada" }, hidden: 1, at: { city: "Bern" } }, { "x-ms-documentdb-partitionkey": '["t"]' });
  const { page } = await open(browser.context, db("items", "nested"));
  await page.getByText("Columns", { exact: true }).click();
  await page.getByRole("checkbox", { name: "at.city" }).check();
  await page.getByRole("columnheader", { name: "at.city" }).waitFor();
  await page.getByRole("gridcell", { name: "Bern", exact: true }).waitFor();
  const orders = await page.getByLabel("Order").locator("option").allInnerTexts();
  assert.ok(orders.includes("at.city ↓") && !orders.some((one) => one.startsWith("hidden")), orders.join());
  await page.getByLabel("Order").selectOption({ label: "at.city ↓" });
  await page.getByText(/1 of about 1 · all there/).waitFor();
  // A new item has a place for the key, however deep it lies.
  await page.getByRole("button", { name: "New item" }).click();
  await shown(page).locator(".cm-content").waitFor();
  assert.equal((await shown(page).locator(".cm-content").innerText()).replace(/\s/g, ""), '{"id":"","who":{"team":""}}');
  await page.close();
});

test("the palette opens an item by id and key, and tabs can be doubled", async () => {
  const { page, errors } = await open(browser.context, db("items"));
  await page.getByRole("grid", { name: "Items" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /A container/ }).fill("p8 u1");
  await page.getByRole("option", { name: 'Open the item p8 of the partition key ["u1"] in posts' }).click();
  await page.getByRole("heading", { name: "p8", exact: true }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /A container/ }).fill("duplicate");
  await page.keyboard.press("Enter");
  await page.getByRole("tab", { name: "posts · Items 2" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /A container/ }).fill("theme: dark");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  assert.deepEqual(errors, []);
  await page.close();
});

test("the status bar leads to its request, with parameters and plan", async () => {
  const { page, errors } = await open(browser.context, db("query"));
  await write(page, "Query", "SELECT c.id FROM c WHERE c.likes > @least AND c.big != @big");
  await shown(page).getByRole("button", { name: "Add @least" }).click();
  await shown(page).getByLabel("Value of @least").fill("50");
  await shown(page).getByRole("button", { name: "Add @big" }).click();
  await shown(page).getByLabel("Value of @big").fill("12345678901234567890");
  await run(page);
  await page.getByRole("tab", { name: /Rows \d/ }).waitFor();
  const shared = page.waitForEvent("console", (message) => message.text().startsWith("shared "));
  await page.evaluate(() => { navigator.clipboard.writeText = async (text) => console.log(`shared ${text}`); });
  await shown(page).getByRole("button", { name: "Share" }).click();
  const address = (await shared).text().slice("shared ".length);
  await shown(page).getByRole("tab", { name: "Cost" }).click();
  await shown(page).getByRole("row", { name: /^items read \d/ }).waitFor();
  await page.locator("footer.status a").click();
  const detail = page.getByRole("region", { name: /^Request \d/ });
  await detail.getByText('"value":50').waitFor();
  await detail.locator(".plan .step").first().waitFor();
  await detail.getByRole("link", { name: "Run again and explain" }).click();
  await page.getByRole("tab", { name: "posts · Query 2" }).waitFor();
  assert.equal(await shown(page).getByLabel("Value of @least").inputValue(), "50");
  await page.close();
  // Whoever gets the address has the same query with the same values.
  const { page: other } = await open(browser.context, address.slice(address.indexOf("#")));
  assert.equal(await shown(other).getByLabel("Value of @big").inputValue(), "12345678901234567890");
  await other.close();
  assert.deepEqual(errors, []);
});

test("messages, advice in the text, and hundreds of rows that unfold", async () => {
  await ask("POST", `dbs/${database}/colls`, { id: "rows", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
  for (let at = 0; at < 320; at += 40) await Promise.all(Array.from({ length: 40 }, (_, more) => ask("POST", docs("rows"), { id: `r${at + more}`, pk: "a", text: "abc", deep: { n: at + more } }, { "x-ms-documentdb-partitionkey": '["a"]' })));
  const { page, errors } = await open(browser.context, db("query", "rows"));
  await shown(page).getByLabel("Page", { exact: true }).fill("400");
  await write(page, "Query", 'SELECT c.id, c.deep FROM c WHERE CONTAINS(c.text, "b")');
  await shown(page).locator(".cm-lintRange-warning", { hasText: "CONTAINS" }).waitFor();
  await run(page);
  await page.getByRole("tab", { name: "Rows 320" }).waitFor();
  await shown(page).getByRole("button", { name: "Row 2 in full" }).click();
  await shown(page).locator("pre.exact", { hasText: '"n":' }).waitFor();
  await shown(page).getByRole("button", { name: "Grid" }).click();
  await shown(page).getByRole("grid", { name: "Rows" }).getByRole("columnheader", { name: "deep" }).waitFor();
  // Arrows go along the results.
  await shown(page).getByRole("tab", { name: /^Rows/ }).focus();
  for (const name of ["Cost", "Plan", "Advice 1", "Messages 1"]) { await page.keyboard.press("ArrowRight"); await shown(page).getByRole("tab", { name, selected: true }).waitFor(); }
  await shown(page).getByText(/page 1: 320 rows/).waitFor();
  await write(page, "Query", "SELECT c.id FROM c WHERE c.id = @missing");
  await run(page);
  await shown(page).getByRole("tab", { name: /^Messages/, selected: true }).waitFor();
  await shown(page).locator(".failure", { hasText: "@missing" }).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test("a query and what is asked for each of its rows are found together, priced", async () => {
  await ask("DELETE", "_armilla/requests");
  const key = (user) => ({ "x-ms-documentdb-partitionkey": `["${user}"]` });
  const query = (text, headers) => ask("POST", docs(), { query: text, parameters: [] }, { "content-type": "application/query+json", "x-ms-documentdb-isquery": "true", ...headers });
  await query('SELECT c.id, c.userId FROM c WHERE c.type = "post"', { "x-ms-documentdb-query-enablecrosspartition": "true" });
  for (let at = 0; at < 12; at++) {
    await ask("GET", `${docs()}/p${at % 7}`, undefined, key(`u${at % 7}`));
    await query(`SELECT VALUE COUNT(1) FROM c WHERE c.likes > ${at}`, key(`u${at % 7}`));
  }
  const { page, errors } = await open(browser.context, "#/requests?view=n1");
  const found = page.locator(".sequence", { hasText: "A query, and 24 requests for its rows one by one" });
  await found.waitFor();
  await found.getByRole("row", { name: /query posts SELECT VALUE COUNT\(\?\).* 12 / }).waitFor();
  await found.getByRole("row", { name: /read posts 12 / }).waitFor();
  await found.getByText(/One query over the 12 ids/).waitFor();
  // On a phone every figure is seen without scrolling sideways.
  await page.setViewportSize({ width: 390, height: 844 });
  assert.deepEqual(await page.locator(".sequence .wide").evaluateAll((all) => all.map((one) => one.scrollWidth - one.clientWidth)), [0]);
  assert.deepEqual(errors, []);
  await page.close();
});

const skip = binary ? false : "EXPLORER_SERVER names no server to start";
test("advice: what the advisor finds, what to do, a try in the lab, and dismissing", { skip, timeout: 240_000 }, async () => {
  // A server of its own: a finding is worth a hundredth of all that the server was asked.
  const server = await (await ownServer()).start();
  try { await adviceOn(server.endpoint); } finally { await server.remove(); }
});

async function adviceOn(endpoint) {
  const ask = await client(endpoint);
  await ask("POST", "dbs", { id: database });
  // The first design of the blog: names and counts are asked for with every post.
  await ask("POST", `dbs/${database}/colls`, { id: "entries", partitionKey: { paths: ["/postId"], kind: "Hash", version: 2 } });
  await ask("POST", `dbs/${database}/colls`, { id: "people", partitionKey: { paths: ["/id"], kind: "Hash", version: 2 } });
  const header = (key) => ({ "x-ms-documentdb-partitionkey": JSON.stringify([key]) });
  for (let user = 0; user < 8; user++) await ask("POST", docs("people"), { id: `user-${user}`, username: `name of ${user}`, about: "x".repeat(300) }, header(`user-${user}`));
  for (let post = 0; post < 20; post++) {
    await ask("POST", docs("entries"), { id: `post-${post}`, postId: `post-${post}`, type: "post", userId: `user-${post % 8}`, title: `Title ${post}`, content: "y".repeat(900), creationDate: `2024-01-${String(post + 1).padStart(2, "0")}` }, header(`post-${post}`));
    await Promise.all(Array.from({ length: 6 }, (_, at) => ask("POST", docs("entries"), { id: `c-${post}-${at}`, postId: `post-${post}`, type: at % 2 ? "like" : "comment", userId: `user-${at}`, text: "z".repeat(200) }, header(`post-${post}`))));
  }
  await ask("DELETE", "_armilla/requests");
  for (let turn = 0; turn < 60; turn++) {
    const post = `post-${turn % 20}`, one = { "x-ms-activity-id": randomUUID(), "user-agent": "azsdk-java-cosmos/4.60.0" };
    const found = JSON.parse((await ask("GET", `${docs("entries")}/${post}`, undefined, { ...header(post), ...one })).text);
    await ask("GET", `${docs("people")}/${found.userId}`, undefined, { ...header(found.userId), ...one });
    for (const type of ["comment", "like"]) await ask("POST", docs("entries"), { query: `SELECT VALUE COUNT(1) FROM c WHERE c.postId = @post AND c.type = '${type}'`, parameters: [{ name: "@post", value: post }] }, { ...header(post), ...one, "content-type": "application/query+json", "x-ms-documentdb-isquery": "true" });
  }
  const { page, errors } = await open(browser.context, "#/advice", { endpoint });
  const findings = shown(page).locator("article.finding:not(.single)", { hasText: `${database} / entries` });
  // The advisor looks at the log every few seconds.
  for (let tries = 0; tries < 40 && !(await findings.count()); tries++) {
    await page.getByRole("button", { name: "Look again" }).and(page.locator(":enabled")).click();
    await page.getByRole("button", { name: "Look again" }).and(page.locator(":enabled")).waitFor({ timeout: 60_000 });
    if (!(await findings.count())) await page.waitForTimeout(1000);
  }
  const first = findings.first(), title = await first.getByRole("heading").first().innerText();
  assert.match(await first.innerText(), /RU a day less/);
  assert.match(await first.innerText(), /confidence (high|medium|low)/);
  const saved = (await shown(page).locator("article.finding .saved strong").allInnerTexts()).map((text) => Number(text.replace(/[^\d]/g, "")));
  assert.deepEqual(saved, saved.toSorted((a, b) => b - a), "dearest first");
  const [before, after] = (await first.getByRole("group", { name: "Requests before and after" }).locator("tbody tr").first().locator("td.n").allInnerTexts()).slice(1).map((text) => parseFloat(text.replaceAll(",", "")));
  assert.ok(after < before, `${before} → ${after}`);
  await first.getByText(/What to do, in \d+ step/).click();
  await first.getByRole("button", { name: "Copy" }).first().waitFor();
  assert.deepEqual(await violations(page), []);
  await first.getByRole("link", { name: "Try in the lab" }).click();
  await shown(page).getByRole("heading", { name: title }).waitFor({ timeout: 120_000 });
  await shown(page).getByRole("button", { name: "as advised" }).waitFor();
  await shown(page).getByText(/times less than as it is/).first().waitFor().catch(async () => { await shown(page).getByRole("button", { name: "as advised" }).click(); await shown(page).getByText(/times less than as it is/).first().waitFor(); });
  await page.getByRole("tab", { name: "Advice" }).click();
  await first.getByRole("button", { name: "a week" }).click();
  await shown(page).getByRole("heading", { name: title }).waitFor({ state: "detached" });
  await shown(page).getByRole("button", { name: "Show what was dismissed" }).click();
  await shown(page).getByRole("heading", { name: title }).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
}

test("settings: an index is seen being built; computed properties, versions and autoscale by form", { timeout: 180_000 }, async () => {
  await ask("POST", `dbs/${database}/colls`, { id: "large", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
  const text = "x".repeat(200), rows = Array.from({ length: 100 }, (_, at) => at);
  for (let batch = 0; batch < 60; batch++) {
    const body = rows.map((at) => ({ operationType: "Upsert", resourceBody: { id: `${batch}-${at}`, pk: "a", a: at, b: batch, c: { d: at, e: [at, batch] }, text } }));
    const answer = await ask("POST", docs("large"), body, { "x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True", "x-ms-documentdb-partitionkey": '["a"]' });
    assert.equal(answer.status, 200, answer.text);
  }
  const { page, errors } = await open(browser.context, db("settings", "large", `?composite=${encodeURIComponent('["/a ASC","/b DESC"]')}`));
  // All that the page says, also what it says for a moment only.
  await page.evaluate(() => { window.said = []; new MutationObserver(() => window.said.push(document.querySelector(".settings")?.innerText ?? "")).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true }); });
  await shown(page).getByRole("button", { name: "Save the change" }).click();
  await page.getByText("Saved. The index is built.").waitFor({ timeout: 60_000 });
  assert.ok((await page.evaluate(() => window.said)).some((one) => /index \d+ % built/.test(one)), "the progress was shown");
  await shown(page).getByText("Add a computed property").click();
  await shown(page).getByLabel("Name", { exact: true }).fill("cp_sum");
  await shown(page).getByLabel("Query", { exact: true }).fill("SELECT VALUE c.a + c.b FROM c");
  await shown(page).locator("form", { hasText: "Query" }).getByRole("button", { name: "Add" }).click();
  await shown(page).getByLabel("Change feed").selectOption("all");
  await shown(page).getByRole("button", { name: "Save the change" }).click();
  await page.getByText(/^Saved/).waitFor();
  const made = JSON.parse((await ask("GET", `dbs/${database}/colls/large`)).text);
  assert.deepEqual(made.computedProperties, [{ name: "cp_sum", query: "SELECT VALUE c.a + c.b FROM c" }]);
  assert.equal(made.changeFeedPolicy.retentionDuration, 10);
  await shown(page).getByRole("combobox", { name: /^Kind/ }).selectOption("auto");
  await shown(page).getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Autoscale it is.").waitFor();
  await shown(page).getByLabel("Most RU/s").waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test("what the throttle refuses is told for the partition that refused it", { skip, timeout: 120_000 }, async () => {
  const server = await (await ownServer()).start();
  try {
  const ask = await client(server.endpoint);
  await ask("POST", "dbs", { id: database });
  // Requests are counted by container for 64 of them: those that are gone leave their place to others.
  const key = { "x-ms-documentdb-partitionkey": '["a"]' };
  for (let at = 0; at < 64; at += 8) await Promise.all(Array.from({ length: 8 }, async (_, more) => {
    await ask("POST", `dbs/${database}/colls`, { id: `gone${at + more}`, partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
    await ask("GET", `${docs(`gone${at + more}`)}/none`, undefined, key);
    await ask("DELETE", `dbs/${database}/colls/gone${at + more}`);
  }));
  await ask("POST", `dbs/${database}/colls`, { id: "refusing", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
  await ask("PUT", `_armilla/dials/dbs/${database}/colls/refusing`, { throttle: "on", "throttle-scale": "0.001" });
  // The first request asks for a place, which it has within a second or two.
  const isCounted = async () => { await ask("GET", `${docs("refusing")}/none`, undefined, key); return JSON.parse((await ask("GET", `_armilla/partitions/dbs/${database}/colls/refusing`)).text).counted; };
  for (let tries = 0; tries < 100 && !(await isCounted()); tries++) await new Promise((later) => setTimeout(later, 100));
  let refused = 0;
  for (let at = 0; at < 200 && refused < 3; at++) if ((await ask("GET", `${docs("refusing")}/none`, undefined, { "x-ms-documentdb-partitionkey": '["a"]' })).status === 429) refused++;
  assert.equal(refused, 3);
  const { page } = await open(browser.context, db("partitions", "refusing"), { endpoint: server.endpoint });
  await shown(page).locator("td.bad", { hasText: /^\d+$/ }).waitFor();
  await page.close();
  } finally { await server.remove(); }
});

test("partitions: the throttle's dial, and another key by the service's hash", async () => {
  const { page, errors } = await open(browser.context, db("partitions"));
  await shown(page).getByRole("combobox", { name: /^throttle/ }).selectOption("report");
  await page.getByText("throttle report").waitFor();
  await shown(page).getByRole("combobox", { name: /^throttle/ }).selectOption("off");
  await page.getByText("throttle off").waitFor();
  await shown(page).getByLabel("Property").fill("/title");
  await shown(page).getByRole("button", { name: "Look at a sample" }).click();
  await shown(page).getByText(/It spreads well/).waitFor();
  assert.equal(await shown(page).locator(".spread span").count(), 3);
  assert.deepEqual(errors, []);
  await page.close();
});

test("partitions: a merge is begun, followed while it is under way, and told of at its end", async () => {
  await ask("POST", `dbs/${database}/colls`, { id: "joined", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } }, { "x-ms-offer-throughput": "25000" });
  for (let at = 0; at < 12; at++) await ask("POST", docs("joined"), { id: `${at}`, pk: `${at}` }, { "x-ms-documentdb-partitionkey": `["${at}"]` });
  const link = JSON.parse((await ask("GET", `dbs/${database}/colls/joined`)).text)._self;
  const offer = JSON.parse((await ask("GET", "offers")).text).Offers.find((one) => one.resource === link);
  assert.equal((await ask("PUT", `offers/${offer._rid}`, { ...offer, content: { offerThroughput: 400 } })).status, 200);
  const { page, errors } = await open(browser.context, db("partitions", "joined"));
  await page.getByText("3 physical partitions", { exact: true }).waitFor();
  // One that somebody else has begun: the server tells of it, and the page follows.
  const under = { state: "merging", from: 3, wanted: 1, partitions: 2 };
  await page.route("**/_armilla/partitions/**", async (route) => { const answer = await route.fetch(); await route.fulfill({ response: answer, json: { ...(await answer.json()), merge: under } }); });
  await page.getByText("Merging: 2 of 3 partitions are left, at least 1 will be.").waitFor();
  assert.ok(await shown(page).getByRole("button", { name: "Merge partitions" }).isDisabled());
  assert.deepEqual(await violations(page), []);
  await page.unroute("**/_armilla/partitions/**");
  const [begun] = await Promise.all([page.waitForResponse((answer) => answer.url().endsWith("/merge")), shown(page).getByRole("button", { name: "Merge partitions" }).and(page.locator(":enabled")).click()]);
  assert.equal(begun.status(), 202);
  await page.getByText("Merged: 3 partitions became 1.").waitFor();
  await page.getByText("1 physical partition", { exact: true }).waitFor();
  assert.equal(JSON.parse((await ask("GET", docs("joined"))).text)._count, 12);
  await shown(page).getByRole("button", { name: "Merge partitions" }).click();
  await page.getByText("Nothing to merge").waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test("what the sign-in tells of the server is what the pages go by", { skip, timeout: 60_000 }, async () => {
  const server = await (await ownServer("--in-memory", "--serverless", "--throttle", "on", "--request-log", "0")).start();
  try {
    const ask = await client(server.endpoint);
    await ask("POST", "dbs", { id: "d" });
    await ask("POST", "dbs/d/colls", { id: "c", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
    const { page } = await open(browser.context, "#/requests", { endpoint: server.endpoint });
    const asked = [];
    page.on("request", (request) => { if (request.url().includes("_armilla/requests")) asked.push(request.url()); });
    await page.getByText("The server keeps no log of requests").waitFor();
    await page.locator(".states .badge", { hasText: "throttle on" }).waitFor();
    await page.locator(".states .badge", { hasText: "in memory" }).waitFor();
    // Nothing is provisioned, so nobody is asked for it.
    await page.getByRole("button", { name: "New container" }).first().click();
    await page.getByLabel("Name", { exact: true }).fill("made");
    assert.equal(await page.getByRole("dialog").getByLabel("RU/s").count(), 0);
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("No items yet.").waitFor();
    await page.goto(`${server.endpoint}/_explorer/#/db/d/c/settings`);
    await shown(page).getByText("This account is serverless").waitFor();
    await page.goto(`${server.endpoint}/_explorer/#/help`);
    await shown(page).getByText(/^This server has .*serverless charging/).waitFor();
    assert.deepEqual(asked, [], "nobody asks for a log that is not kept");
    await page.close();
  } finally { await server.remove(); }
});

test("partitions: hot keys with their sizes, the nodes of a cluster, and what is not known", async () => {
  for (let at = 0; at < 3; at++) await ask("GET", `${docs()}/p1`, undefined, { "x-ms-documentdb-partitionkey": '["u1"]' });
  const { page, errors } = await open(browser.context, db("partitions"));
  await shown(page).getByRole("row", { name: /^\["u1"\].* KB$/ }).waitFor();
  assert.equal(await shown(page).getByRole("heading", { name: "Nodes" }).count(), 0);
  // What one of several nodes answers; the route itself is tried in Rust.
  const nodes = [{ name: "a", address: "http://a:8081", version: "0.1.0", role: "owner", rowsBehind: 0 }, { name: "b", address: "http://b:8082", version: "0.1.0", role: "standby", rowsBehind: 12 }];
  await page.route("**/_armilla/partitions/**", async (route) => { const answer = await route.fetch(); await route.fulfill({ response: answer, json: { ...(await answer.json()), nodes, counted: false } }); });
  await shown(page).getByText("a owns every partition of the account. One other follows").waitFor();
  await shown(page).getByRole("row", { name: /^b standby.* 12 / }).waitFor();
  await shown(page).getByText("More than 64 containers are in use").waitFor();
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(errors, []);
  await page.close();
});

test("a container that was made anew elsewhere is told of, and can be looked at", async () => {
  const make = () => ask("POST", `dbs/${database}/colls`, { id: "remade", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
  await make();
  const { page } = await open(browser.context, db("items", "remade"));
  await page.getByText("No items yet.").waitFor();
  await page.getByText('container.upsert_item({"id":"1","pk":""})').waitFor();
  await ask("DELETE", `dbs/${database}/colls/remade`);
  await make();
  await ask("POST", docs("remade"), { id: "new", pk: "a" }, { "x-ms-documentdb-partitionkey": '["a"]' });
  await page.getByText("was deleted and made anew elsewhere").waitFor();
  await page.getByRole("button", { name: "Show the new one" }).click();
  await page.getByRole("button", { name: "new", exact: true }).waitFor();
  await page.close();
});

test("activity names the metrics, and the shape is a tree", async () => {
  const { page, errors } = await open(browser.context, "#/activity");
  await page.getByText("Names of the metrics").click();
  await page.getByRole("term").filter({ hasText: /^armilla_/ }).first().waitFor();
  await ask("POST", `dbs/${database}/colls`, { id: "deep", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
  await ask("POST", docs("deep"), { id: "a", pk: "a", outer: { inner: { leaf: 1 }, list: [1, 2] } }, { "x-ms-documentdb-partitionkey": '["a"]' });
  await page.goto(`${endpoint}/_explorer/${db("shape", "deep")}`);
  await shown(page).getByRole("rowheader", { name: "/outer/inner/leaf" }).waitFor();
  await shown(page).getByRole("button", { name: "What is inside /outer", exact: true }).click();
  await shown(page).getByRole("rowheader", { name: "/outer/inner/leaf" }).waitFor({ state: "detached" });
  assert.deepEqual(errors, []);
  await page.close();
});
