// Three versions of an item become one, member by member; every value keeps its bytes.
import { compact, members } from "./json";

export interface Clash { path: string; base: string | undefined; mine: string | undefined; stored: string | undefined }
export interface Merged { text: string; clashes: Clash[] }
type Version = string | undefined;

const equal = (one: Version, other: Version) => (one === undefined || other === undefined ? one === other : compact(one) === compact(other));
const isObject = (text: Version): text is string => text !== undefined && text.trimStart()[0] === "{";

/** What both sides changed differently is a clash, and goes as picked (mine, where nothing is). */
export function merge(base: string, mine: string, stored: string, picks: Record<string, "mine" | "stored"> = {}): Merged {
  const clashes: Clash[] = [];
  const one = (path: string, b: Version, m: Version, s: Version): Version => {
    if (equal(m, s) || equal(s, b)) return m;
    if (equal(m, b)) return s;
    if (isObject(m) && isObject(s)) return object(path, isObject(b) ? b : "{}", m, s);
    clashes.push({ path, base: b, mine: m, stored: s });
    return picks[path] === "stored" ? s : m;
  };
  const object = (path: string, b: string, m: string, s: string): string => {
    const of = (text: string) => new Map(members(text).map((member) => [member.key, text.slice(member.start, member.end)]));
    const [bs, ms, ss] = [of(b), of(m), of(s)];
    const parts: string[] = [];
    for (const key of new Set([...ms.keys(), ...ss.keys()])) {
      const value = one(`${path}/${key}`, bs.get(key), ms.get(key), ss.get(key));
      if (value !== undefined) parts.push(`${JSON.stringify(key)}:${value}`);
    }
    return `{${parts.join(",")}}`;
  };
  return { text: object("", base, mine, stored), clashes };
}
