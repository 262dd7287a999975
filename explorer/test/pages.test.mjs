// The pages in a real browser against a real server.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { client, endpoint, fill, launch, open, violations, write, CONTRAST } from "./stage.mjs";

const database = `explorer-${randomUUID().slice(0, 8)}`;
let browser, ask;
const db = (view, container = "posts") => `#/db/${database}/${encodeURIComponent(container)}/${view}`;
before(async () => {
  ask = await client();
  await fill(ask, database, 60);
  browser = await launch();
}, { timeout: 120_000 });
after(async () => {
  await browser?.close();
  await ask?.("DELETE", `dbs/${database}`);
});
const item = async (id, key, container = "posts") => (await ask("GET", `dbs/${database}/colls/${encodeURIComponent(container)}/docs/${encodeURIComponent(id)}`, undefined, { "x-ms-documentdb-partitionkey": key })).text;

test("this machine's user is signed in, and the home page tells what is there", async () => {
  const { page, errors } = await open(browser.context);
  await page.getByRole("heading", { name: "Containers" }).waitFor();
  await page.getByRole("row", { name: new RegExp(`${database} / posts`) }).waitFor();
  assert.ok(!page.url().includes("token"));
  assert.deepEqual(errors, []);
  await page.close();
});

test("a used ticket and a wrong key are refused, and say why", async () => {
  const { page } = await open(browser.context, "#ticket=nonsense", { wait: "form.sign-in" });
  assert.ok(!page.url().includes("ticket"));
  await page.getByText("older than a minute").waitFor();
  await page.getByLabel("Account key or connection string").fill("AccountEndpoint=x;AccountKey=d3Jvbmc=;");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("not a key of this account").waitFor();
  await page.close();
});

test("containers are made and deleted, whatever their names", async () => {
  const { page, errors } = await open(browser.context);
  const name = `<script>alert(1)</script> "q" 🜨`;
  await page.getByRole("button", { name: "New container" }).first().click();
  await page.getByRole("combobox", { name: "Database" }).fill(database);
  await page.getByLabel("Name", { exact: true }).fill(name.replaceAll("/", "∕"));
  await page.getByLabel("Partition key").fill("/pk");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("No items yet.").waitFor();
  await page.goto(`${endpoint}/_explorer/${db("settings", name.replaceAll("/", "∕"))}`);
  await page.getByLabel(/Type .* to delete/).fill(name.replaceAll("/", "∕"));
  await page.getByRole("button", { name: "Delete container" }).click();
  await page.getByRole("heading", { name: /Armilla/ }).waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test("an item is made, changed and put back without losing a byte", async () => {
  const { page, errors } = await open(browser.context, db("items"));
  await page.getByRole("button", { name: "New item" }).first().click();
  const body = '{"id":"bytes","userId":"u1","n":1.0,"big":12345678901234567890,"e":1E2,"z":1,"a":"é"}';
  await write(page, "The item as JSON", body);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("heading", { name: "bytes" }).waitFor();
  assert.ok((await item("bytes", '["u1"]')).startsWith(body.slice(0, -1)));
  await page.getByRole("button", { name: "Edit" }).click();
  await write(page, "The item as JSON", body.replace('"z":1', '"z":2'));
  await page.getByRole("button", { name: "Show change" }).click();
  await page.locator(".diff .new").first().waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  assert.match(await item("bytes", '["u1"]'), /12345678901234567890,"e":1E2,"z":2/);
  await page.getByRole("button", { name: /Undo the replace/ }).click();
  await page.getByRole("button", { name: /Undo/ }).waitFor({ state: "detached" });
  await page.waitForFunction(() => document.querySelector(".status")?.textContent?.includes("read bytes"));
  assert.match(await item("bytes", '["u1"]'), /"n":1\.0,.*"z":1,/);
  assert.deepEqual(errors, []);
  await page.close();
});

test("a conflict overwrites nothing", async () => {
  const { page } = await open(browser.context, `${db("items")}?id=p1&key=${encodeURIComponent('["u1"]')}`);
  await page.getByRole("button", { name: "Edit" }).click();
  await write(page, "The item as JSON", '{"id":"p1","userId":"u1","title":"mine"}');
  await ask("PUT", `dbs/${database}/colls/posts/docs/p1`, { id: "p1", userId: "u1", title: "theirs" }, { "x-ms-documentdb-partitionkey": '["u1"]' });
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Somebody else has changed this item").waitFor();
  assert.match(await item("p1", '["u1"]'), /theirs/);
  await page.getByRole("button", { name: "Go on with mine" }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  assert.match(await item("p1", '["u1"]'), /mine/);
  await page.close();
});

test("several items are deleted together, with keys of every kind", async () => {
  await ask("POST", `dbs/${database}/colls`, { id: "kinds", partitionKey: { paths: ["/a", "/b"], kind: "MultiHash", version: 2 } });
  const items = ['{"id":"1","a":"x","b":1}', '{"id":"2","a":null,"b":true}', '{"id":"3","a":"ü","b":2.5}'];
  const keys = ['["x",1]', "[null,true]", '["\\u00fc",2.5]'];
  for (const [at, one] of items.entries()) assert.equal((await ask("POST", `dbs/${database}/colls/kinds/docs`, one, { "x-ms-documentdb-partitionkey": keys[at] })).status, 201);
  const { page } = await open(browser.context, db("items", "kinds"));
  for (const id of ["1", "2", "3"]) await page.getByLabel(`Choose ${id}`).check();
  await page.getByRole("button", { name: "Delete 3 items" }).click();
  await page.getByText("3 deleted").waitFor();
  await page.getByText("No items yet.").waitFor();
  await page.close();
});

test("a query tells rows, cost, plan, and what is wrong with it", async () => {
  const { page, errors } = await open(browser.context, db("query"));
  await write(page, "Query", 'SELECT c.id, c.likes FROM c WHERE c.type = "post" ORDER BY c.likes DESC');
  await page.locator(".live-dot").waitFor();
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.getByRole("tab", { name: /Rows \d+/ }).waitFor();
  assert.match(await page.locator(".runbar").innerText(), /RU/);
  await page.getByRole("tab", { name: "Plan" }).click();
  await page.locator(".plan .step").first().waitFor();
  await page.getByRole("tab", { name: "Cost" }).click();
  await page.getByText("At 100 runs a second").waitFor();
  await write(page, "Query", "SELECT * FRM c");
  await page.locator(".live .bad").waitFor();
  await page.locator(".cm-lintRange-error").first().waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test("scripts are saved and run, and an error has its line", async () => {
  const { page } = await open(browser.context, db("scripts"));
  await page.getByRole("button", { name: "nothing" }).click();
  await page.getByLabel("Name").fill("hello");
  await write(page, "Source of the script", "function hello(name) {\n  console.log('said');\n  getContext().getResponse().setBody('Hello ' + name);\n}");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByLabel("Arguments").fill('["you"]');
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Hello you").waitFor();
  await page.getByText("said", { exact: true }).waitFor();
  await page.close();
});

test("settings show what a change does before it is saved", async () => {
  const { page } = await open(browser.context, `${db("settings")}?composite=${encodeURIComponent('["/type ASC","/likes DESC"]')}`);
  await page.getByText("The index is built anew").waitFor();
  await page.getByRole("button", { name: "Save the change" }).click();
  await page.getByText("Saved.").waitFor();
  const answer = await ask("GET", `dbs/${database}/colls/posts`);
  assert.match(answer.text, /compositeIndexes/);
  await page.close();
});

test("the throttle is shown when it bites", async () => {
  await ask("PUT", `_armilla/dials/dbs/${database}/colls/kinds`, { throttle: "on", "throttle-scale": "0.001" });
  const { page } = await open(browser.context, db("query", "kinds"));
  await page.getByLabel("ask again after 429").uncheck();
  const refused = page.locator(".failure strong", { hasText: "429" });
  for (let times = 0; times < 20 && !(await refused.isVisible()); times++) {
    await page.getByRole("button", { name: /^Run/ }).click();
    await page.waitForFunction(() => !document.querySelector(".runbar [role=status]")?.textContent?.includes("running"));
  }
  await refused.waitFor();
  await page.locator(".bar.warn", { hasText: /Throttled: 400 RU\/s of kinds used up\./ }).waitFor();
  await ask("PUT", `_armilla/dials/dbs/${database}/colls/kinds`, { throttle: "off" });
  await page.close();
});

test("changes appear in the feed as they happen, and what changed where versions are kept", async () => {
  const { page } = await open(browser.context, "#/");
  // The feed stands at its end once it was told that there is nothing new.
  const atItsEnd = () => page.waitForResponse((answer) => answer.url().includes("/docs") && answer.status() === 304);
  await Promise.all([atItsEnd(), page.goto(`${endpoint}/_explorer/${db("feed")}`)]);
  await page.getByText("Waiting for a change").waitFor();
  await ask("POST", `dbs/${database}/colls/posts/docs`, { id: "fresh", userId: "u9" }, { "x-ms-documentdb-partitionkey": '["u9"]' });
  await page.getByRole("link", { name: "fresh" }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await ask("POST", `dbs/${database}/colls/posts/docs`, { id: "later", userId: "u9" }, { "x-ms-documentdb-partitionkey": '["u9"]' });
  await page.getByRole("button", { name: "Go on (1 wait)" }).click();
  await page.getByRole("link", { name: "later" }).waitFor();
  await page.getByLabel("Filter changes").fill("fresh");
  await page.getByRole("link", { name: "later" }).waitFor({ state: "detached" });
  await ask("POST", `dbs/${database}/colls`, { id: "versions", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 }, changeFeedPolicy: { retentionDuration: 10 } });
  await page.goto(`${endpoint}/_explorer/${db("feed", "versions")}`);
  const shown = page.locator('[role="tabpanel"]:not([hidden])');
  await Promise.all([atItsEnd(), shown.getByLabel("all versions and deletes").check()]);
  const key = { "x-ms-documentdb-partitionkey": '["a"]' };
  await ask("POST", `dbs/${database}/colls/versions/docs`, { id: "v", pk: "a", n: 1 }, key);
  await ask("PUT", `dbs/${database}/colls/versions/docs/v`, { id: "v", pk: "a", n: 2 }, key);
  await ask("DELETE", `dbs/${database}/colls/versions/docs/v`, undefined, key);
  for (const operation of ["create", "replace", "delete"]) await shown.locator(".feed-row", { hasText: operation }).waitFor();
  await page.close();
});

test("a page of another origin is let in nowhere", async () => {
  const other = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<title>other</title>")).listen(0);
  const { page } = await open(browser.context);
  const stranger = await browser.context.newPage();
  await stranger.route("http://evil.example/", (route) => route.fulfill({ contentType: "text/html", body: "<title>evil</title>" }));
  await stranger.goto("http://evil.example/");
  const outcome = await stranger.evaluate(async (base) => {
    const tries = [["POST", "/_armilla/session", '{"auto":true}'], ["GET", "/dbs"], ["GET", "/_armilla/overview"], ["GET", "/_armilla/dials"], ["GET", "/metrics"]];
    const read = [];
    for (const [method, path, body] of tries) try { const answer = await fetch(base + path, { method, body }); read.push(`${path} ${answer.status}`); } catch { /* as it should be */ }
    return read;
  }, endpoint);
  assert.deepEqual(outcome, []);
  await stranger.close();
  await page.close();
  other.close();
});

const PAGES = ["#/", () => db("items"), () => `${db("items")}?id=p2&key=${encodeURIComponent('["u2"]')}`, () => db("query"), () => db("feed"), () => db("shape"), () => db("partitions"), () => db("scripts"), () => db("settings"), "#/requests", "#/requests?view=shapes", "#/requests?view=n1", "#/activity", "#/advice", "#/lab", "#/import", "#/help"];
const SIZES = [["a phone", { width: 390, height: 844 }], ["a desk", { width: 1440, height: 900 }]];
for (const [device, size] of SIZES) {
  test(`every page on ${device}, light and dark: no overflow, no violation, no error`, { timeout: 240_000 }, async () => {
    const { page, errors } = await open(browser.context, "#/", { size });
    const wrong = [];
    const look = async (name) => {
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (over > 0) wrong.push(`${name}: ${over} px too wide`);
      for (const one of await violations(page)) wrong.push(`${name}: ${one}`);
      // The other theme has other colours and nothing else.
      await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
      for (const one of await violations(page, CONTRAST)) wrong.push(`${name}, dark: ${one}`);
      await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    };
    const shown = page.locator('[role="tabpanel"]:not([hidden])');
    for (const path of PAGES) {
      const at = typeof path === "function" ? path() : path;
      await page.goto(`${endpoint}/_explorer/${at}`);
      await shown.locator("h1").first().waitFor({ state: "attached" });
      await page.waitForFunction(() => !document.querySelector('[role="tabpanel"]:not([hidden]) .reading'));
      await look(at);
    }
    // What only appears when something was done: results of a query, an error, dialogs.
    await page.goto(`${endpoint}/_explorer/${db("query")}?n=${device}`);
    await write(page, "Query", "SELECT * FROM c WHERE c.type = @t");
    await shown.getByRole("button", { name: "Add @t" }).click();
    await shown.getByLabel("Value of @t").fill("post");
    await shown.getByRole("button", { name: /^Run/ }).click();
    for (const name of ["Rows", "Cost", "Plan", "Advice", "Messages"]) { await shown.getByRole("tab", { name: new RegExp(`^${name}`) }).click(); await look(`query, ${name}`); }
    await shown.getByRole("tab", { name: /^Rows/ }).click();
    await shown.getByRole("button", { name: "Grid" }).click();
    await look("query, grid");
    // On a phone the editor is a drawer, which has made room for the rows.
    assert.equal(await shown.locator(".query-top").isVisible(), device !== "a phone");
    if (device === "a phone") await shown.getByRole("button", { name: "Query", expanded: false }).click();
    await write(page, "Query", "SELECT * FRM c");
    await shown.locator(".live .bad").waitFor();
    await shown.getByRole("button", { name: /^Run/ }).click();
    await shown.locator(".failure").waitFor();
    await look("query, error");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "A container, a page or an action" }).waitFor();
    await look("palette");
    await page.keyboard.press("Escape");
    if (device === "a phone") await page.getByRole("button", { name: "Databases and containers" }).click();
    await look("tree");
    await page.getByRole("button", { name: "New container" }).first().click();
    await look("new container");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("treeitem", { name: /^Delete the database/ }).click();
    await look("delete");
    await page.getByRole("button", { name: "Cancel" }).click();
    assert.deepEqual([...wrong, ...errors], []);
    await page.close();
  });
}
