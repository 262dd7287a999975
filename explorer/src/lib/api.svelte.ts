// The server: sessions, requests with their price, and what is known of the connection.
import { ascii, elements, members } from "./json";
import { texts } from "./texts";

export interface Failure { status: number; substatus?: string; message: string; activity?: string; retryAfter?: number }
export interface Answer { status: number; text: string; headers: Headers; charge: number; milliseconds: number }
export interface Last { what: string; charge: number; milliseconds: number; partitions?: string; rows?: number; status: number; at: number }
export interface ServerFacts { version: string; consistency: string; durability: string; inMemory: boolean; throttle: string | null; features: string[]; dataFolder: string | null; keyPlaceholder: string | null; openToEverybody: boolean; trustsThisMachine: boolean; started: number }

export const base = new URL("../", location.href.split("#")[0]);
const STORED = "armilla-session";

export const connection = $state({
  token: sessionStorage.getItem(STORED) ?? "",
  access: "" as "" | "readWrite" | "readOnly",
  server: undefined as ServerFacts | undefined,
  signedIn: false,
  /** Signed out by the person, not by the server. */
  left: false,
  goneSince: 0,
  spent: 0,
  last: undefined as Last | undefined,
  throttled: undefined as { container: string; until: number } | undefined,
});

export class ApiError extends Error {
  constructor(readonly failure: Failure) { super(failure.message); }
}

export function failureOf(error: unknown): Failure {
  if (error instanceof ApiError) return error.failure;
  if (error instanceof DOMException && error.name === "AbortError") return { status: 0, message: texts.connection.stopped };
  return { status: 0, message: error instanceof Error ? error.message : String(error) };
}

/** A request. `quiet`: not of the person's doing; `aside`: for the page, yet it is paid for; `container` names the one it is about, as `database/container`, where the path does not. */
export interface Ask { method?: string; headers?: Record<string, string>; body?: string; signal?: AbortSignal; what?: string; quiet?: boolean; aside?: boolean; container?: string }

const MOVED_RETRIES = 6, MOVED_WAIT = 100;

/** Asks the server. While partitions split or merge (410), it is asked again: nothing was done yet. */
export async function ask(path: string, options: Ask = {}): Promise<Answer> {
  for (let attempt = 0; ; attempt++) {
    try { return await askOnce(path, options); } catch (error) {
      if (failureOf(error).status !== 410 || attempt >= MOVED_RETRIES || options.headers?.["x-ms-documentdb-partitionkeyrangeid"]) throw error;
      await new Promise((later) => setTimeout(later, MOVED_WAIT * 2 ** attempt));
    }
  }
}

async function askOnce(path: string, options: Ask): Promise<Answer> {
  const headers: Record<string, string> = { "x-ms-version": "2020-07-15", "x-ms-useragent": "armilla-explorer", ...options.headers };
  const token = connection.token;
  if (token) headers["authorization"] = encodeURIComponent(`type=session&ver=1.0&sig=${token}`);
  if (options.body !== undefined && !headers["content-type"]) headers["content-type"] = "application/json";
  const started = performance.now();
  let response: Response;
  let text: string;
  try {
    response = await fetch(new URL(path, base), { method: options.method ?? "GET", headers, body: options.body, signal: options.signal, cache: "no-store", credentials: "omit", redirect: "error" });
    text = await response.text();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    if (!connection.goneSince) connection.goneSince = Date.now();
    throw new ApiError({ status: 0, message: texts.connection.theServerDoesNotAnswer });
  }
  connection.goneSince = 0;
  const charge = Number(response.headers.get("x-ms-request-charge") ?? 0);
  const milliseconds = Number(response.headers.get("x-ms-request-duration-ms") ?? performance.now() - started);
  if (!options.quiet) connection.spent += charge;
  if (!options.quiet && !options.aside) {
    const count = response.headers.get("x-ms-item-count");
    connection.last = { what: options.what ?? `${options.method ?? "GET"} ${decodeURIComponent(path)}`, charge, milliseconds, status: response.status, at: Date.now(), rows: count ? Number(count) : undefined, partitions: response.headers.get("x-ms-documentdb-partitionkeyrangeid") ?? undefined };
  }
  if (response.status >= 400) {
    let message = text;
    try { message = (JSON.parse(text) as { message?: string }).message ?? text; } catch { /* the text as it is */ }
    message = message.replace(/\r?\nActivityId:[\s\S]*$/, "").replace(/^Message: /, "");
    // A late answer to an older session says nothing about this one.
    if (response.status === 401 && connection.signedIn && token === connection.token) { connection.signedIn = false; forget(); }
    const retry = Number(response.headers.get("x-ms-retry-after-ms") ?? 0);
    if (response.status === 429) connection.throttled = { container: options.container ?? (/dbs\/([^/]+)\/colls\/([^/]+)/.exec(path)?.slice(1, 3).map(decodeURIComponent).join("/") ?? ""), until: Date.now() + retry };
    throw new ApiError({ status: response.status, substatus: response.headers.get("x-ms-substatus") ?? undefined, message, activity: response.headers.get("x-ms-activity-id") ?? undefined, retryAfter: retry });
  }
  return { status: response.status, text, headers: response.headers, charge, milliseconds };
}

export async function read<T>(path: string, options: Ask = {}): Promise<T> {
  return JSON.parse((await ask(path, options)).text) as T;
}

function forget() {
  connection.token = "";
  sessionStorage.removeItem(STORED);
}

/** Signs in by a key, a ticket, or because the server trusts this machine. */
export async function signIn(proof: { key?: string; ticket?: string; auto?: boolean; readOnly?: boolean }): Promise<void> {
  forget();
  const made = await read<{ token: string }>("_armilla/session", { method: "POST", body: JSON.stringify(proof), quiet: true });
  connection.token = made.token;
  sessionStorage.setItem(STORED, made.token);
  await resume();
}

/** Whether the session that is kept is still good. */
export async function resume(): Promise<void> {
  const session = await read<{ access: "readWrite" | "readOnly"; server: ServerFacts }>("_armilla/session", { quiet: true });
  connection.access = session.access;
  connection.server = session.server;
  connection.signedIn = true;
  connection.left = false;
}

export async function signOut(): Promise<void> {
  try { await ask("_armilla/session", { method: "DELETE", quiet: true }); } catch { /* it is gone either way */ }
  forget();
  connection.left = true;
  connection.signedIn = false;
}

/** Whether the server has something that not every server has; the sign-in tells. */
export const serverHas = (feature: "advice" | "direct" | "nodes" | "requestLog" | "serverless") => connection.server?.features.includes(feature) ?? false;
export const may = { get write() { return connection.access === "readWrite"; } };

// ---- what the protocol offers

export const enc = encodeURIComponent;
export const containerPath = (db: string, name: string) => `dbs/${enc(db)}/colls/${enc(name)}`;

export interface Definition { id: string; _rid: string; _self: string; _etag: string; partitionKey: { paths: string[]; kind: string; version?: number }; indexingPolicy: Record<string, unknown>; defaultTtl?: number; uniqueKeyPolicy?: { uniqueKeys: { paths: string[] }[] }; conflictResolutionPolicy?: unknown; computedProperties?: unknown[]; changeFeedPolicy?: { retentionDuration: number } | null; [name: string]: unknown }
export interface Row { database: string; container: string; partitionKey: string[]; viewOf: string | null; items: number; bytes: number; partitions: number; throughput: number; unitsPerSecond: number; throttledInMinute: number; counted: boolean; indexProgress: number; rid: string; etag: string }
export interface Overview { databases: number; containers: number; items: number; bytes: number; damagedPartitions: number; dials: Record<string, string>; nodes: Node[] | null; list: Row[] }
/** A node of a cluster: one owns all partitions, the others keep copies and pass requests on. */
export interface Node { name: string; address: string; version: string; role: "owner" | "standby"; rowsBehind: number }

export interface Page { rows: string[]; continuation: string | null; charge: number; milliseconds: number }

/** A page of a query over items; rows are texts, as the server wrote them. */
export async function query(db: string, name: string, text: string, options: { parameters?: unknown[]; count?: number; continuation?: string | null; key?: string; signal?: AbortSignal; quiet?: boolean } = {}): Promise<Page> {
  const headers: Record<string, string> = { "content-type": "application/query+json", "x-ms-documentdb-isquery": "true", "x-ms-documentdb-query-enablecrosspartition": "true", "x-ms-max-item-count": String(options.count ?? 100) };
  if (options.continuation) headers["x-ms-continuation"] = options.continuation;
  if (options.key) headers["x-ms-documentdb-partitionkey"] = ascii(options.key);
  const answer = await ask(`${containerPath(db, name)}/docs`, { method: "POST", headers, body: JSON.stringify({ query: text, parameters: options.parameters ?? [] }), signal: options.signal, what: `query ${name}`, quiet: options.quiet });
  return { rows: documents(answer.text, "Documents"), continuation: answer.headers.get("x-ms-continuation"), charge: answer.charge, milliseconds: answer.milliseconds };
}

export function documents(text: string, name: string): string[] {
  const list = members(text).find((one) => one.key === name);
  return list ? elements(text.slice(list.start, list.end)) : [];
}

export async function databases(): Promise<string[]> {
  const all = await read<{ Databases: { id: string }[] }>("dbs", { headers: { "x-ms-max-item-count": "-1" }, quiet: true });
  return all.Databases.map((one) => one.id).sort((a, b) => a.localeCompare(b));
}
