// Numbers, dates and plurals as people write them.

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
const SHORT_DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const MONTH = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
const DAY_AND_YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });

export const longDay = (text) => DAY.format(new Date(text));
export const shortDay = (text) => SHORT_DAY.format(new Date(text));
export const dayAndYear = (text) => DAY_AND_YEAR.format(new Date(text));
export const month = (text) => MONTH.format(new Date(text));

export const plural = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;

export function grouped(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** Request units: whole ones as they are, otherwise two decimals, fewer when there are many. */
export function units(charge) {
  if (charge >= 1000) return grouped(charge);
  return charge.toFixed(charge >= 100 ? 1 : 2).replace(/\.0+$/, "");
}

export function milliseconds(time) {
  return time < 10 ? time.toFixed(1) : grouped(time);
}

export function initials(name) {
  const parts = name.trim().split(/\s+/);
  const first = [...(parts[0] ?? "?")][0] ?? "?";
  const last = parts.length > 1 ? [...parts.at(-1)][0] : "";
  return `${first}${last}`.toUpperCase();
}

/** One of twelve hues for a person, always the same. */
export function hue(id) {
  let sum = 7;
  for (const sign of id) sum = (sum * 31 + sign.codePointAt(0)) >>> 0;
  return sum % 12;
}
