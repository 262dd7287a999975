// Many items at once: requests of the protocol's bulk form, each to one range of partitions.
import { ask, containerPath, failureOf, read, type Definition } from "./api.svelte";
import { effectiveKey, rangeOf } from "./hash";
import { ascii, elements, keyHeader, textAt } from "./json";
import { texts } from "./texts";

const t = texts.bulk;

const ITEMS_MAX = 100, BYTES_MAX = 2 * 1024 * 1024 - 64 * 1024, TOGETHER = 2, ATTEMPTS_MAX = 30;

export interface Line { text: string; line: number }
export interface Progress { stored: number; charge: number; requests: number; failed: { line: number; message: string }[] }
interface Range { id: string; minInclusive: string; maxExclusive: string }
interface Row { item: Line; key: string }

export const fullRequest = (rows: { item: Line }[], next: Line) => rows.length >= ITEMS_MAX || rows.reduce((sum, row) => sum + row.item.text.length, 0) + next.text.length > BYTES_MAX;

/** Stores items until all are in or somebody stops; tells what it did as it goes. */
export async function store(database: string, container: string, def: Definition, items: Line[], told: (progress: Progress) => void, stopped: () => boolean): Promise<void> {
  const path = containerPath(database, container), paths = def.partitionKey.paths;
  const progress: Progress = { stored: 0, charge: 0, requests: 0, failed: [] };
  const fail = (line: number, message: string) => { if (progress.failed.length < 10_000) progress.failed.push({ line, message }); };
  const hierarchical = def.partitionKey.kind === "MultiHash", isKnown = hierarchical || def.partitionKey.version === 2;
  const list = async () => (await read<{ PartitionKeyRanges: Range[] }>(`${path}/pkranges`, { quiet: true })).PartitionKeyRanges;
  let ranges = isKnown ? await list() : [];
  const waiting = new Map<string, Row[]>();
  const ready: { range: string; rows: Row[] }[] = [];
  let at = 0;

  /** The next request: rows of one range, as many as one takes. */
  function next(): { range: string; rows: Row[] } | undefined {
    while (!ready.length && at < items.length) {
      const item = items[at++]!;
      const key = keyHeader(item.text, paths);
      const range = isKnown ? (rangeOf(ranges, effectiveKey(key, hierarchical))?.id ?? "") : "";
      const rows = waiting.get(range) ?? [];
      if (rows.length && (range === "" || fullRequest(rows, item))) { ready.push({ range, rows }); waiting.set(range, [{ item, key }]); } else { rows.push({ item, key }); waiting.set(range, rows); }
    }
    if (!ready.length) for (const [range, rows] of waiting) { ready.push({ range, rows }); waiting.delete(range); break; }
    return ready.shift();
  }
  async function single(row: Row) {
    const answer = await ask(`${path}/docs`, { method: "POST", headers: { "x-ms-documentdb-partitionkey": row.key, "x-ms-documentdb-is-upsert": "true", prefer: "return=minimal" }, body: row.item.text, quiet: true });
    progress.charge += answer.charge;
    progress.stored++;
  }
  /** Sends rows of one range; gives back those that have to be sent again. */
  async function send(range: string, rows: Row[]): Promise<{ again: Row[]; wait: number }> {
    progress.requests++;
    if (range === "") { await single(rows[0]!); return { again: [], wait: 0 }; }
    const body = `[${rows.map((row) => `{"operationType":"Upsert","partitionKey":${ascii(JSON.stringify(row.key))},"resourceBody":${row.item.text}}`).join(",")}]`;
    const headers = { "x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "False", "x-ms-cosmos-batch-continue-on-error": "True", "x-ms-documentdb-partitionkeyrangeid": range, prefer: "return=minimal" };
    const answer = await ask(`${path}/docs`, { method: "POST", headers, body, quiet: true });
    progress.charge += answer.charge;
    const again: Row[] = [];
    let wait = 0;
    elements(answer.text).forEach((text, number) => {
      const row = rows[number]!, status = Number(textAt(text, ["statusCode"]) ?? 0);
      if (status < 300) progress.stored++;
      else if (status === 429 || status === 410 || status === 424 || status === 449) { again.push(row); wait = Math.max(wait, Number(textAt(text, ["retryAfterMilliseconds"]) ?? 50)); }
      else fail(row.item.line, `${status}: ${textAt(text, ["message"]) ?? REASONS[status] ?? t.refused}`);
    });
    return { again, wait };
  }
  await Promise.all(Array.from({ length: TOGETHER }, async () => {
    for (let request = next(); request && !stopped(); request = next()) {
      let rows = request.rows, range = request.range;
      for (let attempt = 0; rows.length && !stopped(); attempt++) {
        try {
          const { again, wait } = await send(range, rows);
          rows = again;
          if (rows.length && attempt >= ATTEMPTS_MAX) { for (const row of rows) fail(row.item.line, t.refusedAgainAndAgain); break; }
          if (rows.length) await new Promise((done) => setTimeout(done, Math.max(wait, 20)));
        } catch (error) {
          const found = failureOf(error);
          // Partitions that split meanwhile: the rows find their new ranges.
          if (found.status === 410 && attempt < ATTEMPTS_MAX) { ranges = await list(); for (const row of rows) { const to = rangeOf(ranges, effectiveKey(row.key, hierarchical))?.id ?? ""; if (to === range || rows.length === 1) { range = to; continue; } ready.push({ range: to, rows: [row] }); } rows = rows.filter((row) => (rangeOf(ranges, effectiveKey(row.key, hierarchical))?.id ?? "") === range); }
          else if (found.status === 429 && attempt < ATTEMPTS_MAX) await new Promise((done) => setTimeout(done, found.retryAfter ?? 100));
          else { for (const row of rows) fail(row.item.line, found.message); rows = []; }
        }
        told({ ...progress });
      }
    }
  }));
  told({ ...progress });
}
const REASONS: Record<number, string> = { 400: t.itemIsNotWanted, 403: t.partitionIsFull, 409: t.uniqueKeyIsTaken, 413: t.itemIsTooLarge };
