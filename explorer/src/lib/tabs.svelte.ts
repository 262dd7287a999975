// The views that are open, each in a tab of its own. They stay as they are while another is looked at.
import { getContext, setContext } from "svelte";
import { texts } from "./texts";
import { keep, kept, link, parse, route, type Place } from "./state.svelte";

const STORED = "armilla-tabs";
const TABS_MAX = 20;
export const NAMES = texts.views;

/** A tab: where it is, whether it was looked at since the page was loaded, and whether it holds what is not saved. */
export interface Tab { number: number; hash: string; visited: boolean; unsaved: boolean; turn: number }

function restored(): Tab[] {
  try {
    const hashes = JSON.parse(sessionStorage.getItem(STORED) ?? "[]") as string[];
    return hashes.slice(0, TABS_MAX).map((hash, at) => ({ number: at + 1, hash, visited: false, unsaved: false, turn: 0 }));
  } catch { return []; }
}

export const tabs = $state({ list: restored(), current: 0 });
let numbers = tabs.list.length;

/** Views of a container can be open several times; the number tells them apart. */
const numberOf = (place: Place) => (place.container ? (place.rest.get("n") ?? "1") : "");

/** What tells one tab from another; the rest of an address only says what to do in it. */
function identity(place: Place): string {
  return [place.database, place.container, place.view, numberOf(place)].join("\n");
}
export function title(tab: Tab): string {
  const place = parse(tab.hash), { view, container } = place, number = numberOf(place);
  const name = view === "query" || Number(number) > 1 ? `${NAMES[view] ?? view} ${number}` : (NAMES[view] ?? view);
  return container ? `${container} · ${name}` : name;
}
export const queryStore = (place: Place) => `query ${place.database}/${place.container}/${place.rest.get("n") ?? 1}`;

/** The number of a view of this container that no tab has. */
export function freeNumber(database: string, container: string, view = "query"): string {
  const used = new Set(tabs.list.map((tab) => parse(tab.hash)).filter((one) => one.view === view && one.database === database && one.container === container).map(numberOf));
  let number = 1;
  while (used.has(String(number))) number++;
  return String(number);
}

/** Goes where the address says: to the tab that is there already, or to a new one. */
export function arrive() {
  let hash = location.hash || "#/";
  let place = parse(hash);
  const shared = place.view === "query" ? place.rest.get("q") : null;
  if (shared !== null) {
    const n = freeNumber(place.database, place.container), parameters = place.rest.get("p") ?? "[]", key = place.rest.get("k") ?? "";
    hash = link(place.database, place.container, "query", { n });
    place = parse(hash);
    keep(queryStore(place), { text: shared, parameters, key });
    history.replaceState(null, "", hash);
  }
  const wanted = identity(place);
  let tab = tabs.list.find((one) => identity(parse(one.hash)) === wanted);
  if (tab && [...place.rest.keys()].some((name) => name !== "n") && tab.visited && tab.hash !== hash && place.view !== "query") {
    if (tab.unsaved && !confirm(texts.leaving.leaveTab)) { location.replace(tab.hash); return; }
    tab.unsaved = false;
    tab.turn++;
  }
  if (!tab) {
    const made = { number: ++numbers, hash, visited: false, unsaved: false, turn: 0 };
    const at = tabs.list.findIndex((one) => one.number === tabs.current);
    tabs.list.splice(at < 0 ? tabs.list.length : at + 1, 0, made);
    tab = tabs.list.find((one) => one.number === made.number)!;
    const oldest = tabs.list.length > TABS_MAX ? tabs.list.filter((one) => !one.unsaved && one !== tab).sort((a, b) => a.number - b.number)[0] : undefined;
    if (oldest) tabs.list.splice(tabs.list.indexOf(oldest), 1);
  }
  tab.hash = hash;
  tab.visited = true;
  tabs.current = tab.number;
  route.current = place;
  remember();
}
function remember() { sessionStorage.setItem(STORED, JSON.stringify(tabs.list.map((tab) => tab.hash))); }

export function show(tab: Tab | undefined) { if (tab && tab.number !== tabs.current) location.hash = tab.hash; }
export function beside(step: number) {
  const at = tabs.list.findIndex((one) => one.number === tabs.current);
  show(tabs.list[(at + step + tabs.list.length) % tabs.list.length]);
}
export function move(tab: Tab, step: number) {
  const at = tabs.list.findIndex((one) => one.number === tab.number), to = at + step;
  if (at < 0 || to < 0 || to >= tabs.list.length) return;
  tabs.list.splice(to, 0, ...tabs.list.splice(at, 1));
  remember();
}
/** Closes a tab, and asks when it holds what is not saved. */
export function close(tab: Tab | undefined) {
  if (!tab || (tab.unsaved && !confirm(texts.leaving.closeTab(title(tab))))) return;
  const at = tabs.list.findIndex((one) => one.number === tab.number);
  if (parse(tab.hash).view === "query") localStorage.removeItem(queryStore(parse(tab.hash)));
  tabs.list.splice(at, 1);
  remember();
  if (tab.number === tabs.current) {
    tabs.current = 0;
    const next = tabs.list[Math.min(at, tabs.list.length - 1)];
    if (!next || next.hash === location.hash) { history.replaceState(null, "", next?.hash ?? "#/"); arrive(); } else location.hash = next.hash;
  }
}
/** The same view of a container once more; a query with its text. */
export function duplicate(tab: Tab | undefined) {
  const place = tab && parse(tab.hash);
  if (!place?.container) return;
  const twin = link(place.database, place.container, place.view, { ...Object.fromEntries(place.rest), n: freeNumber(place.database, place.container, place.view) });
  if (place.view === "query") keep(queryStore(parse(twin)), kept(queryStore(place), { text: "SELECT * FROM c", parameters: "[]", key: "" }));
  location.hash = twin;
}
export function newQuery(database: string, container: string) { location.hash = link(database, container, "query", { n: freeNumber(database, container) }); }
/** The address of a query with its parameters and key, for somebody else. */
export function shared(database: string, container: string, query: string, parameters = "[]", key = ""): string {
  return link(database, container, "query", { q: query, ...(parameters === "[]" ? {} : { p: parameters }), ...(key ? { k: key } : {}) });
}

// ---- what a page knows of the tab that it is in

export interface Here { place: Place; readonly active: boolean; readonly shown: boolean; unsaved: (is: boolean) => void; close: () => void; again: () => void }
const HERE = "here";
export function settle(tab: Tab): Here {
  const here: Here = {
    place: parse(tab.hash),
    get active() { return tabs.current === tab.number; },
    get shown() { return tabs.current === tab.number && !document.hidden; },
    unsaved: (is) => { if (tab.unsaved !== is) tab.unsaved = is; },
    close: () => { tab.unsaved = false; close(tab); },
    again: () => { tab.unsaved = false; tab.turn++; },
  };
  setContext(HERE, here);
  return here;
}
export function here(): Here { return getContext<Here>(HERE); }
