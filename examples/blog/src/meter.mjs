// What a page costs. Every request that the SDK sends passes through `meterPlugin`, which writes it into the ledger
// of whatever is being measured at that moment: an AsyncLocalStorage carries the ledger along every await, so the
// models need not hand it around.
import { AsyncLocalStorage } from "node:async_hooks";

const current = new AsyncLocalStorage();
const TEXT_LENGTH_MAX = 400;
const PREPARATIONS = new Set(["query plan", "metadata"]);

/** The requests sent on behalf of one thing that is measured. */
export class Ledger {
  entries = [];
  started = performance.now();
  milliseconds = 0;

  close() {
    this.milliseconds = performance.now() - this.started;
    this.closed = true;
  }

  /** Requests that touch data. Query plans and metadata, which the SDK asks for besides, are in `preparations`. */
  get requests() {
    return this.entries.length - this.preparations;
  }

  get preparations() {
    return this.entries.filter((entry) => PREPARATIONS.has(entry.what)).length;
  }

  get charge() {
    return this.entries.reduce((sum, entry) => (PREPARATIONS.has(entry.what) ? sum : sum + entry.charge), 0);
  }

  /** Physical partitions, over all containers. */
  get partitions() {
    const names = ({ database, container, partitions }) => partitions.map((id) => `${database}/${container}/${id}`);
    return new Set(this.entries.flatMap(names)).size;
  }

  /** Requests that do the same thing for the same operation, as one line each, ordered by operation. */
  lines() {
    const lines = new Map();
    for (const entry of this.entries) {
      if (PREPARATIONS.has(entry.what)) continue;
      const key = [entry.operation, entry.database, entry.container, entry.what, entry.text].join("\n");
      const line = lines.get(key) ?? { ...entry, times: 0, charge: 0, partitions: new Set() };
      line.times += 1;
      line.charge += entry.charge;
      for (const id of entry.partitions) line.partitions.add(id);
      lines.set(key, line);
    }
    return [...lines.values()].toSorted((a, b) => a.operation.localeCompare(b.operation));
  }
}

/** Runs `work` and returns its result with the ledger of what it sent; a measurement around it counts it too. */
export async function measure(work) {
  const ledger = new Ledger();
  const outer = current.getStore()?.ledger;
  try {
    const result = await current.run({ ledger, operation: "" }, work);
    return { result, ledger };
  } finally {
    ledger.close();
    if (outer && !outer.closed) outer.entries.push(...ledger.entries);
  }
}

/** Names the operation (Q1, C3, …) under which the requests of `work` are listed. */
export function operation(name, work) {
  const outer = current.getStore();
  // An operation inside an operation keeps the outer name: reading the author is part of writing a post.
  if (!outer || outer.operation) return work();
  return current.run({ ledger: outer.ledger, operation: name }, work);
}

/** The plugin for `CosmosClient`; with `on: "request"` the SDK calls it for every request on the wire. */
export async function meterPlugin(context, _diagnostics, next) {
  const { ledger, operation = "" } = current.getStore() ?? {};
  if (!ledger || ledger.closed) return next(context);
  const entry = { operation, ...describe(context), charge: 0, partitions: [], status: 0 };
  ledger.entries.push(entry);
  try {
    const response = await next(context);
    settle(entry, response.code, response.headers);
    return response;
  } catch (error) {
    settle(entry, error.code, error.headers);
    throw error;
  }
}

function settle(entry, status, headers = {}) {
  entry.status = status ?? 0;
  entry.charge = Number(headers["x-ms-request-charge"] ?? 0);
  // A session token names the partitions that answered: `0:-1#7,1:-1#9`.
  const token = headers["x-ms-session-token"] ?? "";
  // One that was handed back to be sent to each partition (400) touched none itself.
  const touched = status === 400 ? "" : token;
  if (status === 400 && entry.what === "query") entry.what = "query, handed back to the SDK to merge";
  entry.partitions = touched.split(",").filter(Boolean).map((part) => part.split(":")[0]);
}

/** What a request does, in words. */
function describe(context) {
  const [, database = "", container = ""] = /\/dbs\/([^/]+)(?:\/colls\/([^/]+))?/.exec(context.path) ?? [];
  const script = /\/sprocs\/([^/]+)/.exec(context.path)?.[1];
  if (script) return { database, container, what: "procedure", text: script };
  if (context.resourceType !== "docs") return { database, container, what: "metadata", text: context.resourceType };
  const query = queryText(context.body);
  if (query && context.headers?.["x-ms-cosmos-is-query-plan-request"]) return { database, container, what: "query plan", text: query };
  if (query) return { database, container, what: "query", text: query };
  return { database, container, what: context.operationType, text: "" };
}

function queryText(body) {
  try {
    const { query } = typeof body === "string" ? JSON.parse(body) : (body ?? {});
    return query?.replaceAll(/\s+/g, " ").slice(0, TEXT_LENGTH_MAX);
  } catch {
    return undefined;
  }
}
