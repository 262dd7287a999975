// What every page shares: the masthead with the switch between the models, the note after a change, and at the
// bottom the receipt of what the page cost.
import { html } from "./html.mjs";
import { grouped, milliseconds, plural, units } from "./words.mjs";
import { Copied } from "../models/v3.mjs";
import { Declared } from "../models/v3-declared.mjs";
import { Denormalised } from "../models/v2.mjs";
import { Normalised } from "../models/v1.mjs";

export const MODELS = [Normalised, Denormalised, Copied, Declared];

/**
 * The whole document. `page`: title, body, version, here (the path below the version, so that the switch stays on the
 * page), reader (who is writing), note (what has just been done), ledger, worker, theme.
 */
export function layout(page) {
  const { version, reader } = page;
  return html`<!doctype html>
<html lang="en" ${page.theme ? html`data-theme="${page.theme}"` : ""}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${page.title ? `${page.title} · Meridian` : "Meridian"}</title>
<meta name="description" content="A sample blog on Armilla, in four models of the same data">
<link rel="icon" href="/assets/meridian.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/blog.css">
<script src="/assets/blog.js" defer></script>
</head>
<body class="${version}">
<a class="skip" href="#main">Skip to the content</a>
<header class="masthead">
  <a class="wordmark" href="/${version}/">${sphere()}<span>Meridian</span></a>
  <nav class="places" aria-label="Pages">
    ${place(page, "", "Feed")}${place(page, "people", "People")}${place(page, "compare", "Compare")}
  </nav>
  <nav class="models" aria-label="Data model">
    ${MODELS.map((model) => html`<a href="/${model.version}/${page.here}" title="${model.title}: ${model.summary}"
      ${model.version === version ? html`aria-current="true"` : ""}>${model.version.toUpperCase()}</a>`)}
  </nav>
  <button class="theme" type="button" data-theme-switch aria-label="Switch between light and dark">${moon()}</button>
  <p class="writer">${reader ? html`<a class="as" href="/${version}/users/${reader.id}">${reader.username}</a>` : ""}<a class="do" href="/${version}/write">Write</a></p>
</header>
<main id="main" class="${page.kind ?? ""}">${page.body}</main>
<footer class="colophon">
  <p>Meridian is a sample blog on <strong>Armilla</strong>, through the official JavaScript SDK. Its four models hold the
  same posts; the switch above changes the model and stays on the page.</p>
</footer>
<div class="till">
${page.note ? note(page.note) : ""}
${page.ledger ? receipt(page) : ""}
</div>
</body>
</html>`;
}

function place(page, path, name) {
  const current = page.place === path;
  return html`<a href="/${page.version}/${path}" ${current ? html`aria-current="page"` : ""}>${name}</a>`;
}

/** What has just been done, and what doing it cost. */
function note({ text, ledger }) {
  return html`<p class="note" role="status"><span>${text}</span>${ledger ? html` <span class="cost">${figures(ledger)}</span>` : ""}</p>`;
}

function figures(ledger) {
  return html`<span>${plural(ledger.requests, "request")}</span><span class="ru">${units(ledger.charge)} RU</span><span>${plural(ledger.partitions, "partition")}</span><span>${milliseconds(ledger.milliseconds)} ms</span>`;
}

/** What the page cost: one line, and every request behind it for who opens it. */
function receipt({ ledger, version, worker }) {
  const lines = ledger.lines();
  const severalDatabases = new Set(lines.map((line) => line.database)).size > 1;
  return html`<aside class="receipt" aria-label="What this page cost">
  <details>
    <summary><span class="tag">${version.toUpperCase()}</span><span class="cost" data-cost data-requests="${ledger.requests}" data-charge="${ledger.charge.toFixed(2)}" data-partitions="${ledger.partitions}">${figures(ledger)}</span></summary>
    <div class="receipt-body">
      <table>
        <thead><tr><th scope="col">For</th><th scope="col">Request</th><th scope="col">Partitions</th><th scope="col">RU</th></tr></thead>
        <tbody>${lines.map((line) => receiptLine(line, severalDatabases))}</tbody>
      </table>
      ${ledger.requests === 0 ? html`<p>This page needed nothing from the database.</p>` : ""}
      ${ledger.preparations ? html`<p>${plural(ledger.preparations, "query plan or metadata request", "query plans and metadata requests")} besides, which the SDK asks for; they are not listed.</p>` : ""}
      ${worker?.changes ? html`<p>Behind the pages the change-feed worker has followed ${plural(worker.changes, "change")} since it started: ${plural(worker.requests, "request")}, ${grouped(worker.charge)} RU.</p>` : ""}
    </div>
  </details>
</aside>`;
}

function receiptLine(line, withDatabase) {
  const container = withDatabase ? `${line.database}/${line.container}` : line.container;
  return html`<tr><td>${line.operation}</td>
    <td>${line.times > 1 ? html`<b>${grouped(line.times)} ×</b> ` : ""}${line.what} <span class="container">${container}</span>${line.text ? html`<code>${line.text}</code>` : ""}</td>
    <td>${[...line.partitions].sort().join(" ") || "–"}</td><td>${units(line.charge)}</td></tr>`;
}

/** An armillary sphere in three rings. */
export function sphere() {
  return html`<svg class="sphere" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.6"><circle cx="16" cy="16" r="13"/><ellipse cx="16" cy="16" rx="13" ry="4.6" transform="rotate(-24 16 16)"/><ellipse cx="16" cy="16" rx="4.6" ry="13" transform="rotate(18 16 16)"/><circle cx="16" cy="16" r="1.8" fill="currentColor" stroke="none"/></svg>`;
}

function moon() {
  return html`<svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linejoin="round"><path d="M20 14.2A8.2 8.2 0 0 1 9.8 4 8.2 8.2 0 1 0 20 14.2Z"/></svg>`;
}
