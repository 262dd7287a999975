// What the open page costs: a server that answers point reads, with and without it; and the page by itself. Figures for people,
// no test: a busy machine says nothing. EXPLORER_SERVER is the binary; IDLE_ROUNDS and IDLE_SECONDS say how long.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { client, fill, launch, open, ownServer } from "./stage.mjs";

const ROUNDS = Number(process.env.IDLE_ROUNDS ?? 6), SECONDS = Number(process.env.IDLE_SECONDS ?? 10), CONNECTIONS = 16, ROWS = 5000;
const server = await (await ownServer("--in-memory")).start();
const browser = await launch();
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const TICK = 10;
/** Milliseconds of processor time that a process has had. */
function processorTime(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK;
}
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
let authorization = "";
function readOne(number) {
  return new Promise((resolve, reject) => {
    request({ agent, port: server.port, path: `/dbs/blog/colls/posts/docs/p${number % 60}`, headers: { authorization, "x-ms-version": "2020-07-15", "x-ms-documentdb-partitionkey": `["u${(number % 60) % 7}"]` } }, (answer) => { answer.resume(); answer.on("end", () => (answer.statusCode === 200 ? resolve() : reject(new Error(`${answer.statusCode}`)))); }).on("error", reject).end();
  });
}
/** Point reads for a while: how many a second, and the server's processor time for each. */
async function reads() {
  const before = processorTime(server.process.pid), until = Date.now() + SECONDS * 1000;
  let count = 0;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => { while (Date.now() < until) await readOne(count++); }));
  return { perSecond: count / SECONDS, micros: ((processorTime(server.process.pid) - before) * 1000) / count };
}
try {
  const ask = await client(server.endpoint);
  await fill(ask, "blog", 60);
  const made = await (await fetch(`${server.endpoint}/_armilla/session`, { method: "POST", body: '{"auto":true}' })).json();
  authorization = encodeURIComponent(`type=session&ver=1.0&sig=${made.token}`);
  await reads();
  const closed = [], opened = [];
  for (let round = 0; round < ROUNDS; round++) {
    closed.push(await reads());
    const { page } = await open(browser.context, "#/", { endpoint: server.endpoint });
    await page.getByRole("heading", { name: "Containers" }).waitFor();
    opened.push(await reads());
    await page.close();
  }
  for (const [name, runs] of [["closed", closed], ["open", opened]]) console.log(`explorer ${name.padEnd(6)}  ${median(runs.map((one) => one.perSecond)).toFixed(0)} point reads/s  ${median(runs.map((one) => one.micros)).toFixed(2)} µs of the server's processor each (median of ${ROUNDS})`);
  const lost = 1 - median(opened.map((one) => one.perSecond)) / median(closed.map((one) => one.perSecond));
  const dearer = median(opened.map((one) => one.micros)) / median(closed.map((one) => one.micros)) - 1;
  console.log(`open and idle it costs ${(lost * 100).toFixed(2)} % of the reads, ${(dearer * 100).toFixed(2)} % more processor time each (bar: 1 %)`);

  // The page by itself.
  const { page } = await open(browser.context, "#/", { endpoint: server.endpoint });
  await page.reload();
  await page.getByRole("heading", { name: "Containers" }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const busy = async () => (await session.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value;
  const before = await busy();
  await page.waitForTimeout(10_000);
  console.log(`first paint ${paint.toFixed(0)} ms (bar: 300), idle page ${(((await busy()) - before) * 10).toFixed(2)} % of a core (bar: 1)`);
  for (let at = 0; at < ROWS; at += 100) await Promise.all(Array.from({ length: 100 }, (_, more) => ask("POST", "dbs/blog/colls/posts/docs", { id: `row${at + more}`, userId: "u1", title: `Row ${at + more}`, likes: at }, { "x-ms-documentdb-partitionkey": '["u1"]' })));
  await page.goto(`${server.endpoint}/_explorer/#/db/blog/posts/items`);
  await page.getByRole("button", { name: "Load all up to 5,000" }).click();
  await page.getByText(/^50\d\d of about/).waitFor({ timeout: 120_000 });
  const frames = await page.evaluate(async () => {
    const box = document.querySelector(".lines"), times = [];
    let last = performance.now();
    for (let step = 0; step < 200; step++) { box.scrollTop += 400; await new Promise((next) => requestAnimationFrame(next)); const now = performance.now(); times.push(now - last); last = now; }
    return times;
  });
  console.log(`scrolling ${ROWS} rows: a frame every ${median(frames).toFixed(1)} ms (bar: 32)`);
} finally {
  await browser.close();
  await server.remove();
}
