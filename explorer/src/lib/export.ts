// A container as JSON lines, page by page. Nothing but the page under way is kept in memory: it goes to the file as it comes,
// or, where the browser cannot write files, into parts that the browser keeps outside of the page until the last one.
import { query } from "./api.svelte";
import { compact } from "./json";

const PAGE_ITEMS = 1000;

/** Where the lines go. */
export interface Sink { write: (text: string) => Promise<void>; close: () => Promise<void> }
export interface Exported { items: number; bytes: number; charge: number; isWhole: boolean }

interface FileHandle { createWritable: () => Promise<Sink> }
type Picker = (options: { suggestedName: string }) => Promise<FileHandle>;

/** Asks for a file where the browser can write one as it goes, and gathers a download where it cannot. Nothing when the person chooses none. */
export async function openSink(name: string, offer: (whole: Blob) => void): Promise<Sink | undefined> {
  const pick = (window as { showSaveFilePicker?: Picker }).showSaveFilePicker;
  if (!pick) {
    const parts: Blob[] = [];
    return { write: async (text) => { parts.push(new Blob([text])); }, close: async () => offer(new Blob(parts, { type: "application/x-ndjson" })) };
  }
  try { return await (await pick({ suggestedName: name })).createWritable(); } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return undefined;
    throw error;
  }
}

/** A row as one line: texts keep their bytes, but for line breaks between values. */
export const line = (row: string) => `${/[\r\n]/.test(row) ? compact(row) : row}\n`;

/** Writes all items, or those that came before somebody stopped. The sink is closed either way, so that what came can be used. */
export async function exportLines(database: string, container: string, sink: Sink, told: (far: Exported) => void, stopped: () => boolean): Promise<Exported> {
  const far: Exported = { items: 0, bytes: 0, charge: 0, isWhole: false };
  let next: string | null = null;
  try {
    do {
      const page = await query(database, container, "SELECT * FROM c", { count: PAGE_ITEMS, continuation: next });
      const text = page.rows.map(line).join("");
      await sink.write(text);
      next = page.continuation;
      far.items += page.rows.length;
      far.bytes += text.length;
      far.charge += page.charge;
      far.isWhole = next === null;
      told({ ...far });
    } while (next && !stopped());
  } finally { await sink.close(); }
  return far;
}
