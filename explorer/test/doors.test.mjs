// Who gets in, in a real browser: keys, tickets, read-only sessions, other origins; and a server that restarts under the page.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer, request } from "node:http";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { binary, client, launch, open, ownServer, write } from "./stage.mjs";

const KEY = Buffer.alloc(64, 7).toString("base64");
const skip = binary ? false : "EXPLORER_SERVER names no binary";
let browser, guarded, trusting;
before(async () => {
  if (skip) return;
  guarded = await ownServer("--key-file", "key");
  writeFileSync(join(guarded.folder, "key"), KEY, { mode: 0o600 });
  await guarded.start();
  trusting = await (await ownServer()).start();
  browser = await launch();
}, { timeout: 120_000 });
after(async () => { await browser?.close(); await guarded?.remove(); await trusting?.remove(); });
const signIn = (hash = "#/") => open(browser.context, hash, { endpoint: guarded.endpoint, wait: "form.sign-in" });

test("an empty server has three ways to begin", { skip }, async () => {
  const { page, errors } = await open(browser.context, "#/", { endpoint: trusting.endpoint });
  for (const name of ["Open the model lab", "Import a file"]) {
    await page.getByRole("link", { name }).click();
    await page.locator('[role="tabpanel"]:not([hidden])').getByRole("heading", { name: name.includes("lab") ? "Lab" : "Import and export" }).waitFor();
    await page.goto(`${trusting.endpoint}/_explorer/#/`);
  }
  await page.locator("button.card", { hasText: "New container" }).click();
  await page.getByRole("dialog").getByLabel("Partition key").waitFor();
  assert.deepEqual(errors, []);
  await page.close();
});

test("a key, a connection string and a wrong key", { skip }, async () => {
  const { page, errors } = await signIn();
  const field = page.getByLabel("Account key or connection string");
  await field.fill("d3Jvbmc=");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("not a key of this account").waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute("type") === "password");
  await field.fill(`AccountEndpoint=${guarded.endpoint}/;AccountKey=${KEY};`);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: /^Armilla \d/ }).waitFor();
  // Where the key is found is told, the key is not.
  await page.getByRole("button", { name: "Show the key" }).click();
  await page.getByText(/AccountKey=<first line of .*key>;/).waitFor();
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  assert.ok(!stored.includes(KEY), "the key is kept nowhere");
  assert.deepEqual(errors, []);
  // Whoever signs out is asked for the key again, also after a reload.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.locator("form.sign-in").waitFor();
  await page.reload();
  await page.locator("form.sign-in").waitFor();
  await page.close();
});

test("a ticket opens the page once", { skip }, async () => {
  const address = execFileSync(binary, ["explorer", "--data", guarded.data, "--print"], { encoding: "utf8" }).trim().split(/\s+/).find((word) => word.includes("#ticket="));
  assert.ok(address, "armilla explorer --print gives an address");
  const hash = address.slice(address.indexOf("#"));
  const { page } = await open(browser.context, hash, { endpoint: guarded.endpoint });
  await page.getByRole("heading", { name: /^Armilla \d/ }).waitFor();
  assert.ok(!page.url().includes("ticket"));
  await page.close();
  const { page: late } = await signIn(hash);
  await late.getByText("used already").or(late.getByText("older than a minute")).waitFor();
  await late.close();
});

test("a read-only session has nothing to change things with, and the server would refuse", { skip }, async () => {
  const ask = await client(guarded.endpoint, { key: KEY });
  await ask("POST", "dbs", { id: "d" });
  await ask("POST", "dbs/d/colls", { id: "c", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
  await ask("POST", "dbs/d/colls/c/docs", { id: "1", pk: "a" }, { "x-ms-documentdb-partitionkey": '["a"]' });
  const { page } = await signIn(`#/db/d/c/items?id=1&key=${encodeURIComponent('["a"]')}`);
  await page.getByLabel("Account key or connection string").fill(KEY);
  await page.getByLabel("Only look: change nothing").check();
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "1", exact: true }).waitFor();
  await page.locator(".states .badge", { hasText: "read-only" }).waitFor();
  // A phone has no room for it in the top bar: it stands below, and stays true.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator(".states-below .badge", { hasText: "read-only" }).waitFor();
  await page.setViewportSize({ width: 1440, height: 900 });
  for (const name of ["Edit", "Delete", "Duplicate", "New item", "New container", "New database"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  const refused = await page.evaluate(async () => {
    const token = sessionStorage.getItem("armilla-session");
    return (await fetch("../dbs", { method: "POST", body: '{"id":"x"}', headers: { authorization: encodeURIComponent(`type=session&ver=1.0&sig=${token}`), "x-ms-version": "2020-07-15" } })).status;
  });
  assert.equal(refused, 403);
  await page.close();
});

test("pages of other origins are let in nowhere, whatever they try", { skip }, async () => {
  const ask = await client(trusting.endpoint);
  await ask("POST", "dbs", { id: "secret" });
  const made = await fetch(`${trusting.endpoint}/_armilla/session`, { method: "POST", body: '{"auto":true}' });
  const { token } = await made.json();
  const stranger = await browser.context.newPage();
  await stranger.route("http://evil.example/**", (route) => route.fulfill({ contentType: "text/html", body: "<title>evil</title><iframe></iframe>" }));
  await stranger.goto("http://evil.example/");
  const got = await stranger.evaluate(async ({ base, token }) => {
    const session = { authorization: encodeURIComponent(`type=session&ver=1.0&sig=${token}`) };
    const tries = [["POST", "/_armilla/session", '{"auto":true}'], ["GET", "/dbs"], ["GET", "/dbs", undefined, session], ["GET", "/_armilla/overview", undefined, session], ["GET", "/_armilla/requests", undefined, session], ["GET", "/_armilla/dials"], ["PUT", "/_armilla/dials", '{"throttle":"on"}'], ["GET", "/metrics"], ["POST", "/dbs", '{"id":"mine"}'], ["DELETE", "/dbs/secret"]];
    const read = [];
    for (const [method, path, body, headers] of tries) try { const answer = await fetch(base + path, { method, body, headers }); read.push(`${method} ${path} ${answer.status}`); } catch { /* the browser shows nothing of it */ }
    // Without reading the answer: forms and simple requests are sent all the same.
    for (const [method, path, body] of tries) if (method === "POST") await fetch(base + path, { method, body, mode: "no-cors" }).catch(() => undefined);
    const frame = document.querySelector("iframe");
    frame.src = `${base}/_explorer/`;
    await new Promise((done) => { frame.onload = done; setTimeout(done, 3000); });
    let framed = "";
    try { framed = frame.contentDocument?.title ?? "closed"; } catch { framed = "closed"; }
    return { read, framed };
  }, { base: trusting.endpoint, token });
  assert.deepEqual(got.read, []);
  assert.notEqual(got.framed, "Armilla Explorer");
  const names = (await ask("GET", "dbs")).text;
  assert.ok(names.includes("secret") && !names.includes('"mine"'), names);
  assert.match((await ask("GET", "_armilla/dials")).text, /"throttle":"off"/);
  await stranger.close();
});

test("a name that was made to point here is refused", { skip }, async () => {
  // A page of a name that resolves to this machine: the browser believes that it is the same origin.
  const rebound = await fetch(`${trusting.endpoint}/_armilla/session`, { method: "POST", body: '{"auto":true}', headers: { "x-forwarded-for": "203.0.113.9" } });
  assert.equal(rebound.status, 403);
  const relay = createServer((asked, answer) => {
    const chunks = [];
    asked.on("data", (chunk) => chunks.push(chunk)).on("end", () => {
      const passed = request({ port: trusting.port, host: "127.0.0.1", method: asked.method, path: asked.url, headers: { ...asked.headers, host: "evil.example" } }, (got) => { answer.writeHead(got.statusCode, got.headers); got.pipe(answer); });
      passed.end(Buffer.concat(chunks));
    });
  });
  await new Promise((done) => relay.listen(0, "127.0.0.1", done));
  const page = await browser.context.newPage();
  const answer = await page.goto(`http://127.0.0.1:${relay.address().port}/_explorer/`);
  assert.equal(answer.status(), 421);
  await page.close();
  relay.close();
});

test("behind a prefix of a reverse proxy everything works", { skip }, async () => {
  const relay = createServer((asked, answer) => {
    if (!asked.url.startsWith("/some/prefix/")) { answer.writeHead(404).end(); return; }
    const passed = request({ port: trusting.port, host: "127.0.0.1", method: asked.method, path: asked.url.slice("/some/prefix".length), headers: asked.headers }, (got) => { answer.writeHead(got.statusCode, got.headers); got.pipe(answer); });
    asked.pipe(passed);
  });
  await new Promise((done) => relay.listen(0, "127.0.0.1", done));
  const { page, errors } = await open(browser.context, "#/", { endpoint: `http://127.0.0.1:${relay.address().port}/some/prefix` });
  await page.getByRole("heading", { name: /^Armilla \d/ }).waitFor();
  await page.getByRole("link", { name: "Activity" }).click();
  await page.getByRole("heading", { name: "Activity" }).waitFor();
  await page.getByText("Copy Prometheus scrape config").waitFor();
  assert.deepEqual(errors, []);
  await page.close();
  relay.closeAllConnections();
  relay.close();
});

test("a server that restarts under the page loses nothing that was typed", { skip, timeout: 120_000 }, async () => {
  const ask = await client(trusting.endpoint);
  await ask("POST", "dbs", { id: "d" });
  await ask("POST", "dbs/d/colls", { id: "c", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
  await ask("POST", "dbs/d/colls/c/docs", { id: "1", pk: "a" }, { "x-ms-documentdb-partitionkey": '["a"]' });
  const { page } = await open(browser.context, `#/db/d/c/items?id=1&key=${encodeURIComponent('["a"]')}`, { endpoint: trusting.endpoint });
  await page.getByRole("button", { name: "Edit" }).click();
  await write(page, "The item as JSON", '{"id":"1","pk":"a","typed":"before the restart"}');
  await trusting.stop();
  await page.getByText("The server does not answer since").waitFor();
  await trusting.start();
  await page.getByText("The server does not answer since").waitFor({ state: "detached" });
  await page.locator(".over").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  const now = await (await client(trusting.endpoint))("GET", "dbs/d/colls/c/docs/1", undefined, { "x-ms-documentdb-partitionkey": '["a"]' });
  assert.match(now.text, /before the restart/);
  await page.close();
});

test("a session that ended is made anew over the page, where everything stays as it was", { skip }, async () => {
  const ask = await client(guarded.endpoint, { key: KEY });
  await ask("POST", "dbs", { id: "ended" });
  await ask("POST", "dbs/ended/colls", { id: "c", partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } });
  const { page } = await signIn("#/db/ended/c/query");
  const enter = async () => { await page.getByLabel("Account key or connection string").fill(KEY); await page.getByRole("button", { name: "Sign in" }).click(); };
  await enter();
  await write(page, "Query", "SELECT VALUE 'typed before'");
  const ended = await page.evaluate(async () => (await fetch("../_armilla/session", { method: "DELETE", headers: { authorization: encodeURIComponent(`type=session&ver=1.0&sig=${sessionStorage.getItem("armilla-session")}`) } })).status);
  assert.equal(ended, 204);
  await page.locator(".over form.sign-in").waitFor();
  await enter();
  await page.locator(".over").waitFor({ state: "detached" });
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.locator(".json-rows", { hasText: "typed before" }).waitFor();
  await page.close();
});

test("after five wrong keys within a minute the page waits", { skip }, async () => {
  const { page } = await signIn();
  for (let wrong = 0; wrong < 5; wrong++) {
    await page.getByLabel("Account key or connection string").and(page.locator(":enabled")).fill("d3Jvbmc=");
    await page.getByRole("button", { name: "Sign in" }).click();
    if (wrong < 4) await page.waitForFunction(() => document.activeElement?.getAttribute("type") === "password");
  }
  await page.getByText(/Too many wrong keys/).waitFor();
  assert.ok(await page.getByRole("button", { name: "Sign in" }).isDisabled());
  await page.close();
});
