// The stage of the browser tests: a browser, and the server that ARMILLA_ENDPOINT names.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";

const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
export const endpoint = (process.env.ARMILLA_ENDPOINT ?? "http://localhost:8081").replace(/\/$/, "");
export const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

function browserPath() {
  const given = process.env.EXPLORER_BROWSER ?? process.env.BLOG_BROWSER;
  if (given) return given;
  for (const folder of (process.env.PATH ?? "").split(delimiter))
    for (const name of BROWSERS) if (existsSync(join(folder, name))) return join(folder, name);
  throw new Error("no browser: install Chromium, or point EXPLORER_BROWSER at one");
}

/** A browser of its own profile; `close` removes it. */
export async function launch() {
  const profile = mkdtempSync(join(tmpdir(), "explorer-browser-"));
  const context = await chromium.launchPersistentContext(profile, { executablePath: browserPath(), headless: true, args: FLAGS, viewport: { width: 1440, height: 900 } });
  return { context, close: async () => { await context.close(); rmSync(profile, { recursive: true, force: true }); } };
}

/** The binary of the server, where tests may start servers of their own. */
export const binary = process.env.EXPLORER_SERVER ?? "";

/** A port that nobody has. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const held = createServer().on("error", reject).listen(0, "127.0.0.1", () => { const { port } = held.address(); held.close(() => resolve(port)); });
  });
}

/** A server of a test's own, on a port that stays the same when it is started again. */
export async function ownServer(...flags) {
  const folder = mkdtempSync(join(tmpdir(), "explorer-server-"));
  const port = await freePort();
  const server = { port, folder, data: join(folder, "data"), endpoint: `http://localhost:${port}`, process: undefined };
  const more = process.env.EXPLORER_DIR ? ["--explorer-dir", process.env.EXPLORER_DIR] : [];
  server.start = async () => {
    const started = spawn(binary, ["--port", String(port), "--data", server.data, ...flags, ...more], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
    server.process = started;
    const ended = new Promise((resolve) => started.once("exit", resolve));
    server.stop = async () => { started.kill("SIGTERM"); await ended; };
    const until = Date.now() + 60_000;
    while (Date.now() < until && started.exitCode === null) {
      try { if ((await fetch(`${server.endpoint}/ready`)).ok) return server; } catch { /* not yet */ }
      await new Promise((later) => setTimeout(later, 50));
    }
    throw new Error(`the server at port ${port} did not get ready`);
  };
  server.remove = async () => { await server.stop?.(); rmSync(folder, { recursive: true, force: true }); };
  return server;
}

/** Puts a text into an editor, instead of what is there. */
export async function write(page, label, text) {
  const editor = page.locator(`[role="tabpanel"]:not([hidden]) .cm-content[aria-label="${label}"]`);
  await editor.waitFor();
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

/** A page that remembers what went wrong in it. */
export async function open(context, path = "#/", options = {}) {
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  await page.setViewportSize(options.size ?? { width: 1440, height: 900 });
  await page.emulateMedia({ colorScheme: options.scheme ?? "light", reducedMotion: "reduce" });
  const errors = [];
  page.on("console", (message) => { if (message.text().startsWith("violation: ")) errors.push(message.text()); else if (message.type() === "error" && !/status of (4|5)\d\d|Applying inline style/.test(message.text())) errors.push(message.text()); });
  // Chromium itself styles what replaces a selection in an editor, and our policy keeps it from doing so: no fault of the page.
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => { if (!(event.target instanceof Element && event.target.closest(".cm-content"))) console.log(`violation: ${event.violatedDirective} ${event.sourceFile}`); }));
  if (options.tabs) await page.addInitScript((tabs) => { if (!sessionStorage.getItem("armilla-tabs")) sessionStorage.setItem("armilla-tabs", JSON.stringify(tabs)); }, options.tabs);
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("dialog", (dialog) => dialog.accept());
  await page.goto(`${options.endpoint ?? endpoint}/_explorer/${path}`);
  await page.waitForSelector(options.wait ?? "header.top", { state: "attached" });
  return { page, errors };
}

/** Asks the server as the page does, with a session of its own. */
export async function client(at = endpoint, proof = { auto: true }) {
  const made = await fetch(`${at}/_armilla/session`, { method: "POST", body: JSON.stringify(proof) });
  if (made.status !== 201) throw new Error(`no session: ${made.status} ${await made.text()}`);
  const { token } = await made.json();
  return async (method, path, body, headers = {}) => {
    const answer = await fetch(`${at}/${path}`, { method, body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body), headers: { authorization: encodeURIComponent(`type=session&ver=1.0&sig=${token}`), "x-ms-version": "2020-07-15", ...headers } });
    return { status: answer.status, text: await answer.text(), headers: answer.headers };
  };
}

/** A database of its own with a container of posts, and what the tests of a file need of it. */
export async function fill(ask, database, count) {
  await ask("POST", "dbs", { id: database });
  await ask("POST", `dbs/${database}/colls`, { id: "posts", partitionKey: { paths: ["/userId"], kind: "Hash", version: 2 } }, { "x-ms-offer-throughput": "25000" });
  for (let number = 0; number < count; number++) {
    const item = { id: `p${number}`, userId: `u${number % 7}`, type: number % 3 ? "post" : "comment", title: `Title ${number}`, likes: (number * 37) % 101, tags: ["a", "b"].slice(0, number % 3), creationDate: new Date(1.7e12 + number * 6e7).toISOString() };
    await ask("POST", `dbs/${database}/colls/posts/docs`, item, { "x-ms-documentdb-partitionkey": JSON.stringify([item.userId]) });
  }
}

const WCAG = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] };
/** What a theme can change. */
export const CONTRAST = { type: "rule", values: ["color-contrast"] };

/** What axe finds in what is shown, in short. */
export async function violations(page, runOnly = WCAG) {
  const session = await page.context().newCDPSession(page);
  const known = await session.send("Runtime.evaluate", { expression: "typeof axe" });
  if (known.result.value === "undefined") await session.send("Runtime.evaluate", { expression: AXE });
  const { result } = await session.send("Runtime.evaluate", { expression: `axe.run({ exclude: [["[role=tabpanel][hidden]"]] }, { runOnly: ${JSON.stringify(runOnly)} }).then((found) => JSON.stringify(found.violations.map((one) => one.id + ": " + one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", "))))`, awaitPromise: true });
  await session.detach();
  return JSON.parse(result.value);
}
