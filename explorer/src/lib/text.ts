// Texts: numbers for people, statements, lines that differ.

export function units(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: value < 1000 ? 2 : 0, maximumFractionDigits: value < 1000 ? 2 : 0 });
}
export function whole(value: number): string { return Math.round(value).toLocaleString("en"); }
export function short(value: number): string {
  if (value < 10_000) return whole(value);
  return value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
}
export function bytes(value: number): string {
  const names = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1024 && at < names.length - 1) { value /= 1024; at++; }
  return `${at === 0 ? Math.round(value) : value.toFixed(1)} ${names[at]}`;
}
export function millis(value: number): string {
  return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`;
}
export function ago(seconds: number): string {
  const parts: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, name] of parts) if (seconds >= size) return `${Math.floor(seconds / size)} ${name}`;
  return `${Math.max(0, Math.floor(seconds))} s`;
}

export interface Statement { text: string; start: number; end: number }

/** Statements separated by semicolons that stand outside of strings and comments. */
export function statements(text: string): Statement[] {
  const found: Statement[] = [];
  let start = 0;
  const take = (end: number) => {
    const raw = text.slice(start, end);
    const lead = raw.length - raw.trimStart().length;
    if (raw.trim()) found.push({ text: raw.trim(), start: start + lead, end: start + raw.trimEnd().length });
    start = end + 1;
  };
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (letter === '"' || letter === "'") {
      for (at++; at < text.length && text[at] !== letter; at++) if (text[at] === "\\") at++;
    } else if (letter === "-" && text[at + 1] === "-") {
      while (at < text.length && text[at] !== "\n") at++;
    } else if (letter === ";") take(at);
  }
  take(text.length);
  return found;
}

export function statementAt(text: string, at: number): Statement | undefined {
  const all = statements(text);
  return all.find((one) => at <= one.end + 1) ?? all[all.length - 1];
}

export interface SqlError { message: string; code?: string; start?: number; end?: number }

/** The errors in a refusal of the server: its message holds a list of them as JSON. */
export function sqlErrors(message: string): SqlError[] {
  const at = message.indexOf('{"errors"');
  const plain = /\{"Errors":(\[[^\]]*\])\}/.exec(message);
  if (plain) try { return (JSON.parse(plain[1]!) as string[]).map((one) => ({ message: one })); } catch { /* the text as it is */ }
  if (at < 0) return [{ message: message.replace(/\r?\nActivityId:[\s\S]*$/, "") }];
  try {
    const end = message.lastIndexOf("}");
    const list = (JSON.parse(message.slice(at, end + 1)) as { errors: { message: string; code?: string; location?: { start: number; end: number } }[] }).errors;
    return list.map((one) => ({ message: one.message, code: one.code, start: one.location?.start, end: one.location?.end }));
  } catch { return [{ message }]; }
}

/** The line of a place with a caret under it. */
export function caret(text: string, start: number, end = start + 1): string {
  const from = text.lastIndexOf("\n", Math.max(0, start - 1)) + 1;
  const stop = text.indexOf("\n", start);
  const line = text.slice(from, stop < 0 ? text.length : stop);
  return `${line}\n${" ".repeat(Math.max(0, start - from))}${"^".repeat(Math.max(1, Math.min(end - start, line.length - (start - from))))}`;
}

export interface DiffLine { kind: "same" | "gone" | "new"; text: string }

/** Lines that differ, by the longest common subsequence; long texts only by head and tail. */
export function diff(before: string, after: string): DiffLine[] {
  const one = before.split("\n"), two = after.split("\n");
  let head = 0;
  while (head < one.length && head < two.length && one[head] === two[head]) head++;
  let tail = 0;
  while (tail < one.length - head && tail < two.length - head && one[one.length - 1 - tail] === two[two.length - 1 - tail]) tail++;
  const a = one.slice(head, one.length - tail), b = two.slice(head, two.length - tail);
  const middle: DiffLine[] = [];
  if (a.length * b.length > 4_000_000) {
    middle.push(...a.map((text): DiffLine => ({ kind: "gone", text })), ...b.map((text): DiffLine => ({ kind: "new", text })));
  } else {
    const table = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--)
      table[i]![j] = a[i] === b[j] ? table[i + 1]![j + 1]! + 1 : Math.max(table[i + 1]![j]!, table[i]![j + 1]!);
    let i = 0, j = 0;
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) { middle.push({ kind: "same", text: a[i]! }); i++; j++; }
      else if (j >= b.length || (i < a.length && table[i + 1]![j]! >= table[i]![j + 1]!)) middle.push({ kind: "gone", text: a[i++]! });
      else middle.push({ kind: "new", text: b[j++]! });
    }
  }
  const same = (texts: string[]) => texts.map((text): DiffLine => ({ kind: "same", text }));
  return [...same(one.slice(0, head)), ...middle, ...same(tail ? one.slice(one.length - tail) : [])];
}

/** How warm a partition is, from 0 to 4, by the share of its budget. */
export function heat(used: number, budget: number): number {
  if (budget <= 0) return 0;
  const share = used / budget;
  return share <= 0.001 ? 0 : share < 0.25 ? 1 : share < 0.6 ? 2 : share < 0.9 ? 3 : 4;
}

/** Rows as CSV: one column per top-level member, in the order they first appear. */
export function csv(rows: string[], membersOf: (text: string) => { key: string; start: number; end: number }[], cell: (text: string | undefined) => string): string {
  const columns: string[] = [];
  const parsed = rows.map((row) => {
    const found = new Map(membersOf(row).map((one) => [one.key, row.slice(one.start, one.end)]));
    for (const key of found.keys()) if (!columns.includes(key)) columns.push(key);
    return found;
  });
  const quote = (text: string) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return [columns, ...parsed.map((row) => columns.map((name) => cell(row.get(name))))].map((line) => line.map(quote).join(",")).join("\r\n") + "\r\n";
}

/** A partition key as somebody writes it, as the JSON array that the protocol wants: "u1", ["a", 1], or a bare text. */
export function keyText(given: string): string {
  const text = given.trim();
  try { const value = JSON.parse(text) as unknown; return Array.isArray(value) ? text : `[${text}]`; } catch { return JSON.stringify([text]); }
}
