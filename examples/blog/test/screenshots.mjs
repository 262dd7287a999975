// Takes the pictures in docs/images: `npm run screenshots`, or only some: `npm run screenshots -- feed post`. Every page
// at the width of a phone and of a desktop.
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { launchBrowser, startBlog } from "./stage.mjs";

const FOLDER = fileURLToPath(new URL("../../../docs/images/", import.meta.url));
const SIZES = [{ width: 390, height: 844 }, { width: 1440, height: 900 }];
const PICTURES = [
  { name: "feed", path: "v3/" },
  { name: "post", path: "v3/posts/p0140" },
  { name: "comments", path: "v3/posts/p0140", act: comment },
  { name: "user", path: "v3/users/u0012", act: (page) => page.getByText("Change this name").click() },
  { name: "people", path: "v2/people" },
  { name: "write", path: "v2/write", act: draft },
  { name: "compare", path: "v1/compare", colorScheme: "dark" },
  { name: "receipt", path: "v1/posts/p0140", act: (page) => page.locator(".receipt summary").click() },
];

const names = process.argv.slice(2);
const wanted = PICTURES.filter(({ name }) => names.length === 0 || names.includes(name));
mkdirSync(FOLDER, { recursive: true });
const blog = await startBlog(40);
const browser = await launchBrowser();
try {
  for (const viewport of SIZES) for (const picture of wanted) await take(picture, viewport);
} finally {
  await browser.close();
  await blog.close();
}

async function take({ name, path, act, colorScheme = "light" }, viewport) {
  const page = await browser.newPage({ viewport, colorScheme });
  await page.goto(`${blog.address}/v3/users/u0002`);
  await page.getByRole("button", { name: /^Write as/ }).click();
  // The first visit warms the caches of a server that has just started.
  await page.goto(`${blog.address}/${path}`);
  await page.goto(`${blog.address}/${path}`);
  await act?.(page);
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({ path: `${FOLDER}blog-${name}-${viewport.width}.png` });
  await page.close();
}

async function comment(page) {
  const { width } = page.viewportSize();
  await page.getByLabel("Comment as").fill(width < 800 ? "I have mended the same sock since spring." : "It is more mend than sock by now.");
  await page.getByRole("button", { name: "Add the comment" }).click();
  await page.getByText("Your comment was added").waitFor();
}

async function draft(page) {
  await page.getByLabel("Title").fill("The ring in the middle");
  await page.getByLabel("Text").fill(
    "An armillary sphere is mostly air. Take away everything that is not needed to say where a star will be, and a few rings remain.\n\nI have been thinking about what else could be built that way.",
  );
}
