// The comparison: the six reading requests on all models, measured while the page is made.
import { html } from "./html.mjs";
import { MODELS } from "./layout.mjs";
import { measure } from "../meter.mjs";
import { milliseconds, plural, units } from "./words.mjs";

const QUESTIONS = [
  { id: "Q1", text: "Read a user", ask: (model, post) => model.readUser(post.userId) },
  { id: "Q2", text: "Read a post with its author’s name and its counts", ask: (model, post) => model.readPost(post.id) },
  { id: "Q3", text: "List a user’s posts", ask: (model, post) => model.listUserPosts(post.userId) },
  { id: "Q4", text: "List a post’s comments with names", ask: (model, post) => model.listComments(post.id) },
  { id: "Q5", text: "List a post’s likes with names", ask: (model, post) => model.listLikes(post.id) },
  { id: "Q6", text: "The feed: the newest 100 posts", ask: (model) => model.readFeed() },
];

/** Asks every question of every model; the post is one of the newest that people talked about, the same for all. */
export async function compare(models) {
  const post = mostDiscussed(await models.v3.readFeed());
  if (!post) return undefined;
  const rows = [];
  const versions = MODELS.map(({ version }) => version).filter((version) => models[version]);
  for (const question of QUESTIONS) {
    const row = { ...question, ledgers: {} };
    for (const version of versions) {
      row.ledgers[version] = (await measure(() => question.ask(models[version], post))).ledger;
    }
    rows.push(row);
  }
  return { post, rows, versions };
}

/** The comparison as a table that becomes cards on a phone. */
export function comparePage(comparison, version) {
  if (!comparison) return html`<header class="page-head"><h1>Compare</h1><p class="quiet">There are no posts to compare with yet.</p></header>`;
  const { post, rows, versions } = comparison;
  const shown = MODELS.filter(({ version: of }) => versions.includes(of));
  const most = Math.max(...rows.flatMap((row) => versions.map((of) => row.ledgers[of].charge)));
  return html`<header class="page-head"><h1>The same page, model by model</h1>
    <p class="lede">Measured just now, on <a href="/${version}/posts/${post.id}">${post.title}</a>, its author and the feed. A request unit is what reading one small item costs; bars are on a logarithmic scale.</p></header>
  <table class="comparison">
    <thead><tr><th scope="col"><span class="visually-hidden">Request</span></th>${shown.map((model) => html`<th scope="col"><span class="tag ${model.version}">${model.version.toUpperCase()}</span> <span class="model-title">${model.title}</span></th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>
      <th scope="row"><b>${row.id}</b> ${row.text}</th>
      ${shown.map(({ version: of }) => cell(row.ledgers[of], of, most))}
    </tr>`)}</tbody>
  </table>
  <dl class="models-explained">${shown.map((model) => html`<div><dt><span class="tag ${model.version}">${model.version.toUpperCase()}</span> ${model.title}</dt><dd>${model.summary}</dd></div>`)}</dl>`;
}

function cell(ledger, version, most) {
  const share = (100 * Math.log1p(ledger.charge)) / Math.log1p(most);
  return html`<td data-version="${version.toUpperCase()}">
    <svg class="bar ${version}" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="rail" width="100" height="4"/><rect width="${share.toFixed(1)}" height="4"/></svg>
    <span class="amount">${units(ledger.charge)} <small>RU</small></span>
    <span class="rest">${plural(ledger.requests, "request")} · ${plural(ledger.partitions, "partition")} · ${milliseconds(ledger.milliseconds)} ms</span>
  </td>`;
}

function mostDiscussed(posts) {
  const weight = (post) => post.commentCount + post.likeCount;
  return posts.slice(0, 40).reduce((best, post) => (!best || weight(post) > weight(best) ? post : best), undefined);
}
