// Every page fits a phone and a desktop, one in light and one in dark, passes an accessibility checker, and reports no error.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { useStage } from "./stage.mjs";
import { sample } from "../src/seed/sample.mjs";

const USERS = 6;
const LOOKS = [
  { viewport: { width: 390, height: 844 }, colorScheme: "light" },
  { viewport: { width: 1440, height: 900 }, colorScheme: "dark" },
];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PAGES = ["", "people", "compare", "write", "users/u0002", "posts/p0007"];
const stage = useStage(USERS);

for (const { viewport, colorScheme } of LOOKS) {
  test(`pages at ${viewport.width} px, ${colorScheme}`, async () => {
    const context = await stage.browser.newContext({ viewport, colorScheme, bypassCSP: true });
    const page = await context.newPage();
    const complaints = [];
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
    await page.goto(`${stage.address}/v2/users/u0001`);
    await page.getByRole("button", { name: /^Write as/ }).click();
    for (const path of PAGES) {
      await page.goto(`${stage.address}/v2/${path}`);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(beyond <= 0, `/${path} is ${beyond} px too wide`);
      assert.deepEqual(await accessibilityProblems(page), [], `/${path}`);
    }
    assert.deepEqual(complaints, []);
    await context.close();
  });
}

async function accessibilityProblems(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 120)} ${nodes[0].failureSummary}`);
  });
}

test("words without end do not push a phone’s page aside", async () => {
  const page = await stage.browser.newPage({ viewport: LOOKS[0].viewport });
  const narrow = async (where) => {
    // Text is there before the style sheet is.
    await page.waitForLoadState("load");
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(beyond <= 0, `${where} is ${beyond} px too wide`);
  };
  await page.goto(`${stage.address}/v1/people?back=write`);
  await page.getByLabel("Your name").fill("N".repeat(60));
  await page.getByRole("button", { name: "Join" }).click();
  await page.getByLabel("Title").fill("T".repeat(120));
  await page.getByLabel("Text").fill("x".repeat(500));
  await narrow("writing");
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText("Published").waitFor();
  await page.getByLabel("Comment as").fill("y".repeat(300));
  await page.getByRole("button", { name: "Add the comment" }).click();
  await page.getByText("Your comment was added").waitFor();
  await narrow("the post");
  await page.getByRole("button", { name: "Like" }).click();
  await page.getByText("You like this post").waitFor();
  await narrow("the likes");
  await page.locator("[data-author]").click();
  await page.getByText("1 post", { exact: true }).waitFor();
  await narrow("the user");
  await page.goto(`${stage.address}/v1/`);
  await narrow("the feed");
  await page.goto(`${stage.address}/v1/people`);
  await narrow("people");
  await page.close();
});

test("the theme switch is remembered, and the first stop of the keyboard skips to the content", async () => {
  const page = await stage.browser.newPage({ colorScheme: "light" });
  await page.goto(`${stage.address}/v3/people`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.getByRole("button", { name: "Switch between light and dark" }).click();
  const dark = await paper();
  assert.notEqual(light, dark);
  await page.reload();
  assert.equal(await paper(), dark);
  await page.close();
});

test("the sample data is the same every time", () => {
  assert.deepEqual(sample(USERS), sample(USERS));
  const { users, posts } = sample(40);
  assert.deepEqual([users.length, posts.length, users[0].username], [40, 140, "Mara Lindqvist"]);
  assert.equal(new Set(users.map((user) => user.username)).size, 40);
  assert.equal(new Set(posts.map((post) => post.title)).size, 140);
});
