// The web server: Node's own, one table of routes. A page is measured while its data is gathered; a change is measured
// too, and its receipt is shown on the page that follows.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { asset } from "./assets.mjs";
import { compare, comparePage } from "./compare.mjs";
import { COMMENT_LENGTH_MAX, CONTENT_LENGTH_MAX, NAME_LENGTH_MAX, Refusal, TITLE_LENGTH_MAX, backTo, field, readForm } from "./forms.mjs";
import { layout } from "./layout.mjs";
import { feedPage, peoplePage, postPage, sorryPage, userPage, writePage } from "./pages.mjs";
import { Ledger, measure } from "../meter.mjs";

/** Receipts of changes wait here until the next page shows them. */
const NOTES_MAX = 200;
const HEADERS = {
  "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; font-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "same-origin",
  "cache-control": "no-store",
};

const ID = "([A-Za-z0-9-]{1,80})";
const ROUTES = [
  ["GET", "", showFeed],
  ["GET", "people", showPeople],
  ["GET", "compare", showComparison],
  ["GET", "write", showEditor],
  ["GET", `users/${ID}`, showUser],
  ["GET", `posts/${ID}`, showPost],
  ["POST", "as", becomeUser],
  ["POST", "users", join],
  ["POST", `users/${ID}/name`, rename],
  ["POST", "posts", publish],
  ["POST", `posts/${ID}/comments`, comment],
  ["POST", `posts/${ID}/likes`, like],
].map(([method, path, handle]) => ({ method, pattern: new RegExp(`^${path}$`), handle }));

/** A server for the models; `workers` are woken after each change. */
export function makeServer({ models, workers, settings }) {
  const notes = new Map();
  return createServer((request, response) => {
    answer({ models, workers, settings, notes, request, response }).catch((error) => {
      console.error(error);
      if (!response.headersSent) response.writeHead(500, { "content-type": "text/plain" });
      response.end("Something went wrong.");
    });
  });
}

async function answer(site) {
  const { request, response, settings } = site;
  const url = new URL(request.url, "http://localhost");
  if (url.pathname.startsWith("/assets/")) return asset(url.pathname, response);
  const [, version, path = ""] = /^\/(v1|v2|v3|v3d)(?:\/(.*))?$/.exec(url.pathname) ?? [];
  if (url.pathname === "/") return redirect(response, `/${settings.model}/`);
  const visit = {
    ...site, url, version: version ?? settings.model, path, cookies: readCookies(request), setCookies: [],
  };
  visit.model = site.models[visit.version];
  visit.reader = readerOf(visit.cookies);
  try {
    if (!version) throw new Refusal(404, "There is no such page.");
    await route(visit);
  } catch (error) {
    sorry(visit, error);
  }
}

async function route(visit) {
  const method = visit.request.method === "HEAD" ? "GET" : visit.request.method;
  for (const { method: wanted, pattern, handle } of ROUTES) {
    const match = pattern.exec(visit.path);
    if (match && wanted === method) return handle(visit, ...match.slice(1));
  }
  throw new Refusal(404, "There is no such page.");
}

// Pages.

async function showFeed(visit) {
  await show(visit, () => visit.model.readFeed(), (posts) => ({
    place: "", kind: "wide", body: feedPage(posts, visit.version),
  }));
}

async function showPost(visit, id) {
  const gather = async () => {
    const [post, comments, likes] = await Promise.all([
      visit.model.readPost(id), visit.model.listComments(id), visit.model.listLikes(id),
    ]);
    if (!post) throw new Refusal(404, elsewhere("post"));
    return { post, comments, likes };
  };
  await show(visit, gather, ({ post, comments, likes }) => ({
    title: post.title, kind: "reading", body: postPage(post, comments, likes, visit.version, visit.reader),
  }));
}

async function showUser(visit, id) {
  const gather = async () => {
    const [user, posts] = await Promise.all([visit.model.readUser(id), visit.model.listUserPosts(id)]);
    if (!user) throw new Refusal(404, elsewhere("person"));
    return { user, posts };
  };
  await show(visit, gather, ({ user, posts }) => ({
    title: user.username, kind: "reading", body: userPage(user, posts, visit.version, visit.reader),
  }));
}

async function showPeople(visit) {
  const back = backTo(visit.url.searchParams.get("back"), "");
  await show(visit, () => visit.model.listPeople(), (people) => ({
    title: "People", place: "people", kind: "reading", body: peoplePage(people, visit.version, visit.reader, back),
  }));
}

async function showEditor(visit) {
  if (!visit.reader) return redirect(visit.response, `/${visit.version}/people?back=write`);
  await show(visit, async () => {}, () => ({
    title: "Write", kind: "reading", body: writePage(visit.version, visit.reader),
  }));
}

async function showComparison(visit) {
  await show(visit, () => compare(visit.models), (comparison) => ({
    title: "Compare", place: "compare", kind: "wide", body: comparePage(comparison, visit.version),
  }));
}

// Changes.

async function becomeUser(visit) {
  const form = await readForm(visit.request);
  const user = await visit.model.readUser(field(form, "id", 80));
  if (!user) throw new Refusal(404, elsewhere("person"));
  setReader(visit, user);
  redirect(visit.response, `/${visit.version}/${backTo(form.get("back"), "")}`, visit.setCookies);
}

async function join(visit) {
  const form = await readForm(visit.request);
  const username = field(form, "username", NAME_LENGTH_MAX);
  await change(visit, () => visit.model.createUser(username), (user) => {
    setReader(visit, user);
    return { text: `Welcome, ${user.username}.`, path: backTo(form.get("back"), "") || `users/${user.id}` };
  });
}

async function rename(visit, id) {
  const username = field(await readForm(visit.request), "username", NAME_LENGTH_MAX);
  await change(visit, () => visit.model.renameUser(id, username), () => {
    if (visit.reader?.id === id) setReader(visit, { id, username });
    const follow = visit.version === "v1" ? "" : " The worker carries the name to everything they wrote.";
    return { text: `The name is now ${username}.${follow}`, path: `users/${id}` };
  });
}

async function publish(visit) {
  const form = await readForm(visit.request);
  const title = field(form, "title", TITLE_LENGTH_MAX);
  const content = field(form, "content", CONTENT_LENGTH_MAX);
  await change(visit, () => visit.model.writePost(needReader(visit).id, title, content), (id) => ({
    text: "Published.", path: `posts/${id}`,
  }));
}

async function comment(visit, postId) {
  const content = field(await readForm(visit.request), "content", COMMENT_LENGTH_MAX);
  await change(visit, () => visit.model.addComment(postId, needReader(visit).id, content), (id) => ({
    text: "Your comment was added.", path: `posts/${postId}#comment-${id}`,
  }));
}

async function like(visit, postId) {
  await readForm(visit.request);
  await change(visit, () => visit.model.like(postId, needReader(visit).id), (added) => ({
    text: added ? "You like this post." : "You liked this post before.", path: `posts/${postId}#likes`,
  }));
}

// The two shapes of an answer: a page, and a change that leads to a page.

async function show(visit, gather, describe) {
  const { result, ledger } = await measure(gather);
  send(visit, 200, { ...describe(result), ledger });
}

async function change(visit, work, describe) {
  const { result, ledger } = await measure(work);
  visit.workers[visit.version]?.wake();
  const { text, path } = describe(result);
  const id = randomUUID();
  visit.notes.set(id, { text, ledger });
  if (visit.notes.size > NOTES_MAX) visit.notes.delete(visit.notes.keys().next().value);
  redirect(visit.response, `/${visit.version}/${path}`, [...visit.setCookies, cookie("note", id, 60)]);
}

function send(visit, status, page) {
  const noteId = visit.cookies.get("note");
  const note = visit.notes.get(noteId);
  visit.notes.delete(noteId);
  const cookies = noteId ? [...visit.setCookies, cookie("note", "", 0)] : visit.setCookies;
  const theme = ["light", "dark"].find((name) => name === visit.cookies.get("theme"));
  const worker = visit.workers[visit.version]?.done;
  const text = layout({ ...page, note, theme, worker, version: visit.version, here: visit.path, reader: visit.reader });
  visit.response.writeHead(status, { ...HEADERS, "content-type": "text/html; charset=utf-8", "set-cookie": cookies });
  visit.response.end(String(text));
}

function sorry(visit, error) {
  const known = error instanceof Refusal;
  if (!known) console.error(error);
  const status = known ? error.status : error.code === 404 ? 404 : 502;
  const title = status === 404 ? "Not here" : "That did not work";
  const text = known ? error.message : status === 404 ? elsewhere("page") : `The database answered: ${error.message}`;
  send(visit, status, { title, kind: "reading", body: sorryPage(title, text, visit.version), ledger: new Ledger() });
}

function redirect(response, location, cookies = []) {
  response.writeHead(303, { ...HEADERS, location, "set-cookie": cookies });
  response.end();
}

function elsewhere(what) {
  return `This ${what} is not in this model. Each model has a database of its own; what is written in one stays there.`;
}

// Who is reading: an id and a name in a cookie. There are no passwords in this example.

function needReader({ reader }) {
  if (!reader) throw new Refusal(403, "Choose who you are first.");
  return reader;
}

function readerOf(cookies) {
  const [id, username] = new URLSearchParams(cookies.get("reader") ?? "").getAll("is");
  return id && username ? { id, username } : undefined;
}

function setReader(visit, { id, username }) {
  visit.setCookies.push(cookie("reader", `is=${encodeURIComponent(id)}&is=${encodeURIComponent(username)}`, 30 * 86_400));
}

function readCookies(request) {
  const pairs = (request.headers.cookie ?? "").split(/;\s*/).map((pair) => /^([^=]+)=(.*)$/.exec(pair));
  return new Map(pairs.filter(Boolean).map(([, name, value]) => [name, value]));
}

function cookie(name, value, seconds) {
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax`;
}

