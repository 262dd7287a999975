// Where the person is, and what the tree shows.
import { ask, databases, read, type Definition, type Overview, containerPath } from "./api.svelte";

export interface Place { view: string; database: string; container: string; rest: URLSearchParams }

export function parse(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const rest = new URLSearchParams(search);
  if (parts[0] === "db") return { view: parts[3] ?? "items", database: parts[1] ?? "", container: parts[2] ?? "", rest };
  return { view: parts[0] || "home", database: "", container: "", rest };
}

export const route = $state({ current: parse(location.hash) });

export function link(database: string, container: string, view: string, rest: Record<string, string> = {}): string {
  const search = new URLSearchParams(rest).toString();
  const path = container ? `#/db/${encodeURIComponent(database)}/${encodeURIComponent(container)}/${view}` : `#/${view === "home" ? "" : view}`;
  return search ? `${path}?${search}` : path;
}
export function go(database: string, container: string, view: string, rest: Record<string, string> = {}) {
  location.hash = link(database, container, view, rest);
}

class App {
  // Whole answers: what is in them is replaced, never changed.
  overview = $state.raw<Overview | undefined>();
  databases = $state.raw<string[]>([]);
  language = $state.raw<{ keywords: string[]; functions: { name: string; signatures: string[]; min: number; max: number | null; result: string; says: string }[] } | undefined>();
  /** RU/s of the account at the last looks, one every two seconds. */
  looks = $state.raw<number[]>([]);
  theme = $state((localStorage.getItem("theme") ?? "system") as "system" | "light" | "dark");
  palette = $state(false);
  create = $state<"" | "database" | "container">("");
  /** What is to be deleted, once its name was typed. */
  doomed = $state<{ database: string; container?: string } | undefined>();
  signInFailure = $state("");
  findings = $state(0);
  /** How many scripts the container has that one looks at. */
  scripts = $state({ of: "", count: 0 });
}
export const app = new App();
export const LOOKS = 30;

let lastOverview = "";
export async function refresh(): Promise<void> {
  try {
    const { text } = await ask("_armilla/overview", { quiet: true });
    // Nothing is drawn again while nothing happens.
    if (text !== lastOverview || !app.overview) { lastOverview = text; app.overview = JSON.parse(text) as Overview; }
    const now = app.overview.list.reduce((sum, row) => sum + row.unitsPerSecond, 0);
    if (now > 0 || app.looks.some((look) => look > 0)) app.looks = [...app.looks, now].slice(-LOOKS);
  } catch { /* the bar says it */ }
}
export async function load(): Promise<void> {
  await refresh();
  try { app.databases = await databases(); } catch { /* the bar says it */ }
  try { app.language ??= await read("_armilla/language", { quiet: true }); } catch { /* completion without functions */ }
}
export function definition(database: string, container: string): Promise<Definition> {
  return read<Definition>(containerPath(database, container), { quiet: true });
}

const SAMPLE = 50;
const sampled = new Map<string, Promise<string[]>>();
/** The paths of a small sample of a container, for columns and completion: asked once, and paid for. */
export function pathsOf(database: string, container: string): Promise<string[]> {
  const name = `${database}/${container}`;
  let found = sampled.get(name);
  if (!found) {
    found = read<{ paths: { path: string }[] }>(`_armilla/shape/${containerPath(database, container)}?sample=${SAMPLE}`, { aside: true }).then((shape) => shape.paths.map((one) => one.path));
    sampled.set(name, found);
    // What failed, or found nothing, is asked again.
    found.then((paths) => { if (!paths.length) sampled.delete(name); }, () => sampled.delete(name));
  }
  return found;
}

/** Keeps something in this browser; items never. */
export function kept<T>(name: string, value: T): T {
  try { return (JSON.parse(localStorage.getItem(name) ?? "null") as T) ?? value; } catch { return value; }
}
export function keep(name: string, value: unknown) { localStorage.setItem(name, JSON.stringify(value)); }

export function download(name: string, text: string, type: string) { downloadBlob(name, new Blob([text], { type })); }
export function downloadBlob(name: string, blob: Blob) {
  const url = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
