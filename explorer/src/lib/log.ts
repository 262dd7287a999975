// The server's log of requests: what requests have in common, and which of them belong together.

export interface Logged { number: number; at: number; client: string | null; operation: string; database: string | null; container: string | null; key: string | null; item: string | null; query: string | null; continues: boolean; status: number; charge: number; milliseconds: number; partitions: number; rows: number | null }

export function queryOf(one: Logged): string {
  if (!one.query) return "";
  try { return (JSON.parse(one.query) as { query?: string }).query ?? one.query; } catch { return /"query"\s*:\s*"((?:[^"\\]|\\.)*)/.exec(one.query)?.[1] ?? one.query; }
}
/** The parameters of a query as the JSON list that was sent. */
export function parametersOf(one: Logged): string {
  try { return JSON.stringify((JSON.parse(one.query ?? "{}") as { parameters?: unknown[] }).parameters ?? []); } catch { return "[]"; }
}
/** The request with its values left out: what it has in common with others. */
export function shapeOf(one: Logged): string {
  const known = shapes.get(one);
  if (known !== undefined) return known;
  const text = queryOf(one).replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "?").replace(/\b\d+(\.\d+)?\b/g, "?");
  const shape = `${one.operation} ${one.container ?? ""} ${text}`.trim();
  shapes.set(one, shape);
  return shape;
}
const shapes = new WeakMap<Logged, string>();

/** The least that a query costs in each partition that it asks, by the table of charges; a small item in it costs about the other. */
export const QUERY_BASE = 2.82, QUERY_ITEM = 0.2;

/** Requests of one shape that follow a query. */
export interface Followers { shape: string; operation: string; container: string | null; count: number; charge: number; milliseconds: number }
/** A query (in one request, or one for each partition and page) and what its client asked for its rows, one by one. */
export interface Sequence { times: number; head: Logged; headRequests: number; headCharge: number; headMilliseconds: number; followers: Followers[]; requests: number; charge: number; milliseconds: number }

// At least so many requests of one shape, each close behind the one before, by the same client. Connections say less: SDKs use several for one loop.
const SEQUENCE_MIN = 5, GAP_MAX = 1000, SEQUENCES_MAX = 100;
const isFollower = (one: Logged) => one.key !== null && (one.operation === "read" || one.operation === "query");

/** The sequences in a log, dearest first. */
export function sequences(log: Logged[]): Sequence[] {
  const found: Sequence[] = [];
  const byClient = new Map<string, Logged[]>();
  for (const one of log) { const all = byClient.get(one.client ?? ""); if (all) all.push(one); else byClient.set(one.client ?? "", [one]); }
  for (const all of byClient.values()) {
    const inOrder = all.sort((a, b) => a.number - b.number);
    for (let at = 0; at < inOrder.length; ) {
      const next = sequenceAt(inOrder, at);
      if (next.sequence) found.push(next.sequence);
      at = next.end;
    }
  }
  // The same sequence again and again is told once, by its dearest, with how often it was.
  const kinds = new Map<string, Sequence>();
  for (const one of found.sort((a, b) => b.charge - a.charge)) {
    const name = [shapeOf(one.head), ...one.followers.map((part) => part.shape).sort()].join("\n"), known = kinds.get(name);
    if (known) known.times++; else kinds.set(name, one);
  }
  return [...kinds.values()].slice(0, SEQUENCES_MAX);
}

function sequenceAt(log: Logged[], from: number): { sequence?: Sequence; end: number } {
  const head = log[from]!;
  if (head.operation !== "query" || head.status >= 400) return { end: from + 1 };
  const shape = shapeOf(head);
  let at = from, last = head.at, headCharge = 0, headMilliseconds = 0, headRows = 0;
  // The same query for other partitions and pages is one query.
  const isHead = (one: Logged) => shapeOf(one) === shape && one.at - last <= GAP_MAX && (at === from || one.key === head.key);
  for (; at < log.length && isHead(log[at]!); at++) { const one = log[at]!; headCharge += one.charge; headMilliseconds += one.milliseconds; headRows += one.rows ?? 0; last = Math.max(last, one.at); }
  const headRequests = at - from, groups = new Map<string, Followers>();
  // One row, as of a COUNT, has nothing to be asked for one by one.
  if (headRows < SEQUENCE_MIN) return { end: at };
  for (; at < log.length; at++) {
    const one = log[at]!, name = shapeOf(one);
    if (!isFollower(one) || name === shape || one.at - last > GAP_MAX) break;
    const group = groups.get(name) ?? { shape: name, operation: one.operation, container: one.container, count: 0, charge: 0, milliseconds: 0 };
    groups.set(name, { ...group, count: group.count + 1, charge: group.charge + one.charge, milliseconds: group.milliseconds + one.milliseconds });
    last = Math.max(last, one.at);
  }
  // What came in between by chance is left out.
  const followers = [...groups.values()].filter((one) => one.count >= SEQUENCE_MIN).sort((a, b) => b.charge - a.charge);
  if (!followers.length) return { end: from + headRequests };
  const sum = (of: (one: Followers) => number) => followers.reduce((all, one) => all + of(one), 0);
  return { sequence: { times: 1, head, headRequests, headCharge, headMilliseconds, followers, requests: headRequests + sum((one) => one.count), charge: headCharge + sum((one) => one.charge), milliseconds: headMilliseconds + sum((one) => one.milliseconds) }, end: at };
}
