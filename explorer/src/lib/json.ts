// JSON as text: everything here keeps the bytes of numbers and strings and the order of members.
import { texts } from "./texts";

const SYSTEM = new Set(["_rid", "_self", "_etag", "_attachments", "_ts"]);
export const DEPTH_MAX = 128;
export const ITEM_BYTES_MAX = 2 * 1024 * 1024;

export interface Member { key: string; keyStart: number; start: number; end: number }
export interface Problem { message: string; at: number }

function skipSpace(text: string, at: number): number {
  while (at < text.length && " \t\r\n".includes(text[at]!)) at++;
  return at;
}

/** The end of the value that begins at a place; -1 when there is none. Iterative, so depth costs no stack. */
export function valueEnd(text: string, at: number): number {
  at = skipSpace(text, at);
  const first = text[at];
  if (first === undefined) return -1;
  if (first === '"') return stringEnd(text, at);
  if (first !== "{" && first !== "[") {
    const found = /[\s,\]}]/g;
    found.lastIndex = at;
    const end = found.exec(text)?.index ?? text.length;
    return end > at ? end : -1;
  }
  let depth = 0;
  for (; at < text.length; at++) {
    const letter = text[at];
    if (letter === '"') {
      at = stringEnd(text, at) - 1;
      if (at < 0) return -1;
    } else if (letter === "{" || letter === "[") depth++;
    else if ((letter === "}" || letter === "]") && --depth === 0) return at + 1;
  }
  return -1;
}

function stringEnd(text: string, at: number): number {
  for (at++; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at + 1;
  }
  return -1;
}

/** The members of the object whose text this is. */
export function members(text: string): Member[] {
  const found: Member[] = [];
  let at = skipSpace(text, 0);
  if (text[at] !== "{") return found;
  at = skipSpace(text, at + 1);
  while (at < text.length && text[at] === '"') {
    const keyStart = at;
    const keyEnd = stringEnd(text, at);
    if (keyEnd < 0) break;
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = valueEnd(text, start);
    if (end < 0) break;
    found.push({ key: JSON.parse(text.slice(keyStart, keyEnd)) as string, keyStart, start, end });
    at = skipSpace(text, end);
    if (text[at] !== ",") break;
    at = skipSpace(text, at + 1);
  }
  return found;
}

/** The texts of an array's elements. */
export function elements(text: string): string[] {
  const found: string[] = [];
  let at = skipSpace(text, 0);
  if (text[at] !== "[") return found;
  at = skipSpace(text, at + 1);
  while (at < text.length && text[at] !== "]") {
    const end = valueEnd(text, at);
    if (end < 0) break;
    found.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return found;
}

/** The text at a path of member names; undefined when there is nothing. */
export function textAt(text: string, path: string[]): string | undefined {
  for (const name of path) {
    const member = members(text).find((one) => one.key === name);
    if (!member) return undefined;
    text = text.slice(member.start, member.end);
  }
  return text;
}

/** The item without the members that the server adds, as its author would write it. */
export function withoutSystem(text: string): string {
  const own = members(text).filter((one) => !SYSTEM.has(one.key));
  if (own.length === members(text).length) return text;
  return "{" + own.map((one) => text.slice(one.keyStart, one.end)).join(",") + "}";
}

/** The object with one member set to a text; all others keep their bytes and places. */
export function withMember(text: string, name: string, value: string): string {
  const found = members(text).find((one) => one.key === name);
  if (found) return text.slice(0, found.start) + value + text.slice(found.end);
  const own = members(text).map((one) => text.slice(one.keyStart, one.end));
  return `{${[`${JSON.stringify(name)}:${value}`, ...own].join(",")}}`;
}

/** An item to begin with: an id, and something to fill in at each path of the key. */
export function template(paths: string[]): string {
  const whole: Record<string, unknown> = { id: "" };
  for (const path of paths) {
    const names = pathNames(path), last = names.pop() ?? "";
    let at = whole;
    for (const name of names) at = (at[name] ??= {}) as Record<string, unknown>;
    if (last) at[last] ??= "";
  }
  return JSON.stringify(whole);
}

/** Lines and indentation; every number, string and name as it was. */
export function pretty(text: string, indent = "  "): string {
  const out: string[] = [];
  let depth = 0;
  const line = () => out.push("\n", indent.repeat(depth));
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const letter = text[at]!;
    if (letter === "{" || letter === "[") {
      const close = letter === "{" ? "}" : "]";
      const next = skipSpace(text, at + 1);
      if (text[next] === close) { out.push(letter, close); at = next + 1; continue; }
      out.push(letter); depth++; line(); at++;
    } else if (letter === "}" || letter === "]") { depth--; line(); out.push(letter); at++; }
    else if (letter === ",") { out.push(","); line(); at++; }
    else if (letter === ":") { out.push(": "); at++; }
    else {
      const end = valueEnd(text, at);
      if (end < 0) return text;
      out.push(text.slice(at, end)); at = end;
    }
  }
  return out.join("");
}

/** Without the space between values; every value as it was. */
export function compact(text: string): string {
  const out: string[] = [];
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const letter = text[at]!;
    if ("{}[],:".includes(letter)) { out.push(letter); at++; continue; }
    const end = valueEnd(text, at);
    if (end < 0) return text;
    out.push(text.slice(at, end));
    at = end;
  }
  return out.join("");
}

/** What the server would refuse: syntax, a name twice, too deep, too long. */
export function problem(text: string): Problem | undefined {
  try { JSON.parse(text); } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const at = /position (\d+)/.exec(message);
    return { message: message.replace(/^JSON\.parse: /, ""), at: at ? Number(at[1]) : text.length };
  }
  const names: (Set<string> | undefined)[] = [];
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const letter = text[at]!;
    if (letter === "{") names.push(new Set());
    else if (letter === "[") names.push(undefined);
    else if (letter === "}" || letter === "]") names.pop();
    if (names.length > DEPTH_MAX) return { message: texts.json.tooDeep(DEPTH_MAX), at };
    if (letter === '"') {
      const end = stringEnd(text, at);
      const isName = text[skipSpace(text, end)] === ":";
      const inside = names[names.length - 1];
      if (isName && inside) {
        const name = JSON.parse(text.slice(at, end)) as string;
        if (inside.has(name)) return { message: texts.json.nameTwice(name), at };
        inside.add(name);
      }
      at = end;
    } else at++;
  }
  const bytes = new TextEncoder().encode(text).length;
  if (bytes > ITEM_BYTES_MAX) return { message: texts.json.tooLarge(bytes), at: 0 };
  if (!text.trim().startsWith("{")) return { message: texts.json.notAnObject, at: 0 };
  return undefined;
}

/** Line and column of a place, both from 1. */
export function lineOf(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at).split("\n");
  return { line: before.length, column: (before[before.length - 1]?.length ?? 0) + 1 };
}

/** The names of a path such as /a/"b c"/d. */
export function pathNames(path: string): string[] {
  return [...path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|([^/]*))/g)].map((one) => one[1] ?? one[2] ?? "");
}

/** The header that names an item's partition key, in ASCII. */
export function keyHeader(item: string, paths: string[]): string {
  const parts = paths.map((path) => {
    const text = textAt(item, pathNames(path));
    return text === undefined || text[0] === "{" || text[0] === "[" ? "{}" : text;
  });
  return ascii(`[${parts.join(",")}]`);
}

export function ascii(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, (letter) => "\\u" + letter.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** A value for a cell: strings without quotes, the rest as it is. */
export function cell(text: string | undefined): string {
  if (text === undefined) return "";
  return text[0] === '"' ? (JSON.parse(text) as string) : text;
}
