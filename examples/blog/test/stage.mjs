// The stage for the browser tests: the blog as a process of its own on databases of its own, and a browser.
// ARMILLA_ENDPOINT and ARMILLA_KEY name the database server, as for the other SDK tests; BLOG_BROWSER names a browser.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { readSettings } from "../src/settings.mjs";
import { connect, dropModels } from "../src/store.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
const READY_WITHIN_MS = 90_000;

/** Starts the blog with sample data for so many users; `close` stops it and removes its databases. */
export async function startBlog(users) {
  const database = `blog-test-${randomUUID().slice(0, 8)}`;
  const words = ["serve", "--port", "0", "--database", database, "--users", String(users)];
  const child = spawn(process.execPath, ["blog.mjs", ...words], { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  const close = async () => {
    if (child.exitCode === null) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
    }
    const settings = readSettings(words, process.env);
    const client = connect(settings);
    await dropModels(client, settings);
    client.dispose();
  };
  try {
    return { address: await addressOf(child), database, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The blog and a browser for all tests of a file: known once its tests run, gone when they have. */
export function useStage(users) {
  const stage = { browser: undefined, address: undefined };
  let blog;
  before(async () => {
    stage.browser = await launchBrowser();
    blog = await startBlog(users);
    stage.address = blog.address;
  });
  after(async () => {
    await stage.browser?.close();
    await blog?.close();
  });
  return stage;
}

/** A headless browser: the one named by BLOG_BROWSER, or the first on the PATH. */
export async function launchBrowser() {
  const executablePath = process.env.BLOG_BROWSER ?? findBrowser();
  if (!executablePath) throw new Error("there is no browser: run test/install-browser.sh, or set BLOG_BROWSER");
  // Chromium's sandbox does not work for root, which is what containers usually are.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath, args });
}

function findBrowser() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return BROWSERS.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}

/** Waits until the blog says where it is. */
function addressOf(child) {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`the blog was not ready in time: ${text}`)), READY_WITHIN_MS);
    child.once("exit", (code) => reject(new Error(`the blog ended with ${code}: ${text}`)));
    child.stdout.setEncoding("utf8").on("data", (part) => {
      text += part;
      const address = /ready: (http:\S+?)\/?\s/.exec(text)?.[1];
      if (!address) return;
      clearTimeout(timer);
      resolve(address);
    });
  });
}
