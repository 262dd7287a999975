// The pages: functions from what a model answered to HTML.
import { html } from "./html.mjs";
import { MODELS } from "./layout.mjs";
import { FEED_LENGTH } from "../models/limits.mjs";
import { dayAndYear, hue, initials, longDay, month, plural, shortDay } from "./words.mjs";
import { COMMENT_LENGTH_MAX, CONTENT_LENGTH_MAX, NAME_LENGTH_MAX, TITLE_LENGTH_MAX } from "./forms.mjs";

const LIKERS_SHOWN = 8;

/** The front page: the newest posts of everybody, month by month. */
export function feedPage(posts, version) {
  const model = MODELS.find((each) => each.version === version);
  return html`<div class="opening">
    <h1>Small things, looked at closely</h1>
    <p class="lede">The ${posts.length < FEED_LENGTH ? "" : `${FEED_LENGTH} `}newest posts, from people who could not leave it at that.</p>
    <p class="model-line"><span class="tag">${version.toUpperCase()}</span> <b>${sentence(model.title)}.</b> ${model.summary} <a href="/${version}/compare">Compare them</a></p>
  </div>
  ${posts.length === 0 ? html`<p class="empty">Nothing has been written yet. <a href="/${version}/write">Write the first post</a>.</p>` : ""}
  <div class="entries" data-feed="${posts.length}">${byMonth(posts).map(([name, list]) => html`<section class="month" aria-label="${name}">
    <h2 class="month-name">${name}</h2>
    <div>${list.map((post) => entry(post, version, true))}</div>
  </section>`)}</div>`;
}

/** A user's page: the name, what they wrote, and a way to change who is who. */
export function userPage(user, posts, version, reader) {
  const isReader = reader?.id === user.id;
  return html`<header class="person-head">
    ${monogram(user.id, user.username, "large")}
    <div>
      <h1>${user.username}</h1>
      <p class="quiet">${plural(posts.length, "post")}</p>
    </div>
  </header>
  <div class="person-actions">
    ${isReader ? html`<p class="quiet">You are writing as ${user.username}.</p>` : actAs(user, version)}
    <details class="rename"><summary>Change this name</summary>
      <form method="post" action="/${version}/users/${user.id}/name" class="inline-form">
        <label for="username">New name</label>
        <input id="username" name="username" value="${user.username}" maxlength="${NAME_LENGTH_MAX}" required autocomplete="off">
        <button>Change it everywhere</button>
      </form>
    </details>
  </div>
  ${posts.length === 0 ? html`<p class="empty">${user.username} has not written anything yet.</p>` : ""}
  <div class="entries flat">${posts.map((post) => entry(post, version, false))}</div>`;
}

/** A post with its likes and comments. */
export function postPage(post, comments, likes, version, reader) {
  const liked = reader && likes.some((like) => like.userId === reader.id);
  return html`<article class="post">
    <header>
      <h1>${post.title}</h1>
      <p class="byline">${monogram(post.userId, post.userUsername)}<span><a href="/${version}/users/${post.userId}" data-author>${post.userUsername}</a><time datetime="${post.creationDate}">${longDay(post.creationDate)}</time></span></p>
    </header>
    <div class="prose">${paragraphs(post.content)}</div>
  </article>
  <section class="likes" id="likes" aria-labelledby="likes-title">
    <h2 id="likes-title" class="visually-hidden">Likes</h2>
    ${reader
      ? html`<form method="post" action="/${version}/posts/${post.id}/likes"><button class="like" ${liked ? html`disabled aria-pressed="true"` : ""}>${heart(liked)}<span>${liked ? "Liked" : "Like"}</span></button></form>`
      : html`<a class="like" href="/${version}/people?back=posts/${post.id}">${heart(false)}<span>Like</span></a>`}
    <div><b data-like-count="${post.likeCount}">${post.likeCount ? plural(post.likeCount, "like") : "No likes yet"}</b>${likes.length ? html`<span class="likers"> from ${likers(likes, version)}</span>` : ""}</div>
  </section>
  <section class="comments" id="comments" aria-labelledby="comments-title">
    <h2 id="comments-title"><span data-comment-count="${post.commentCount}">${post.commentCount ? plural(post.commentCount, "comment") : "No comments yet"}</span></h2>
    <ol>${comments.map((comment) => html`<li class="comment" id="comment-${comment.id}">
      ${monogram(comment.userId, comment.userUsername)}
      <div><p class="byline-small"><a href="/${version}/users/${comment.userId}">${comment.userUsername}</a> <time datetime="${comment.creationDate}">${dayAndYear(comment.creationDate)}</time></p>${paragraphs(comment.content)}</div>
    </li>`)}</ol>
    ${reader ? commentForm(post, version, reader) : html`<p class="invite"><a class="button" href="/${version}/people?back=posts/${post.id}">Choose who you are</a> <span class="quiet">to comment or like.</span></p>`}
  </section>`;
}

function commentForm(post, version, reader) {
  return html`<form method="post" action="/${version}/posts/${post.id}/comments" class="stack">
    <label for="content">Comment as ${reader.username}</label>
    <textarea id="content" name="content" rows="3" maxlength="${COMMENT_LENGTH_MAX}" required></textarea>
    <p><button>Add the comment</button></p>
  </form>`;
}

/** The page to write on. */
export function writePage(version, reader) {
  return html`<header class="page-head"><h1>Write</h1><p class="quiet">As <a href="/${version}/users/${reader.id}">${reader.username}</a>, or <a href="/${version}/people?back=write">as somebody else</a>.</p></header>
  <form method="post" action="/${version}/posts" class="stack editor">
    <label for="title">Title</label>
    <input id="title" name="title" maxlength="${TITLE_LENGTH_MAX}" required autocomplete="off">
    <label for="content">Text <span class="quiet">– an empty line begins a new paragraph</span></label>
    <textarea id="content" name="content" rows="14" maxlength="${CONTENT_LENGTH_MAX}" required></textarea>
    <p><button>Publish</button></p>
  </form>`;
}

/** Everybody, to read or to be. */
export function peoplePage(people, version, reader, back) {
  return html`<header class="page-head"><h1>People</h1>
    <p class="quiet">There are no passwords here. Choose who you are, or join under a name of your own.</p></header>
  <form method="post" action="/${version}/users" class="inline-form join">
    <input type="hidden" name="back" value="${back}">
    <label for="join-name">Your name</label>
    <input id="join-name" name="username" maxlength="${NAME_LENGTH_MAX}" required autocomplete="off">
    <button>Join</button>
  </form>
  <ul class="people">${people.map((user) => html`<li>
    ${monogram(user.id, user.username)}<a href="/${version}/users/${user.id}">${user.username}</a>
    ${reader?.id === user.id ? html`<span class="quiet">you</span>` : actAs(user, version, back, "Be")}
  </li>`)}</ul>`;
}

/** When something cannot be shown or done. */
export function sorryPage(title, text, version) {
  return html`<div class="sorry"><h1>${title}</h1><p class="lede">${text}</p><p><a class="button" href="/${version}/">To the feed</a></p></div>`;
}

function actAs(user, version, back = `users/${user.id}`, verb = "Write as") {
  return html`<form method="post" action="/${version}/as"><input type="hidden" name="id" value="${user.id}"><input type="hidden" name="back" value="${back}"><button class="plain">${verb} ${user.username.split(" ")[0]}</button></form>`;
}

/** A post in a list. On the front page, below a month, it names its author. */
function entry(post, version, withAuthor) {
  const title = html`<a href="/${version}/posts/${post.id}">${post.title}</a>`;
  return html`<article class="entry">
    <div><p class="entry-meta">${withAuthor ? html`<a href="/${version}/users/${post.userId}">${post.userUsername}</a>` : ""}<time datetime="${post.creationDate}">${withAuthor ? shortDay(post.creationDate) : longDay(post.creationDate)}</time></p>
      ${withAuthor ? html`<h3>${title}</h3>` : html`<h2>${title}</h2>`}
      <p class="excerpt">${post.content}</p>
    </div>
    <p class="counts"><span>${plural(post.commentCount, "comment")}</span><span>${plural(post.likeCount, "like")}</span></p>
  </article>`;
}

function likers(likes, version) {
  const name = (like) => html`<a href="/${version}/users/${like.userId}">${like.userUsername}</a>`;
  const shown = likes.slice(0, LIKERS_SHOWN);
  const rest = likes.slice(LIKERS_SHOWN);
  const list = shown.map((like, n) => html`${n > 0 ? (rest.length === 0 && n === shown.length - 1 ? " and " : ", ") : ""}${name(like)}`);
  if (rest.length === 0) return list;
  return html`${list} <details class="more-likers"><summary>and ${plural(rest.length, "other")}</summary><span>${rest.map((like, n) => html`${n > 0 ? ", " : ""}${name(like)}`)}</span></details>`;
}

function byMonth(posts) {
  const months = new Map();
  for (const post of posts) {
    const name = month(post.creationDate);
    months.set(name, [...(months.get(name) ?? []), post]);
  }
  return [...months];
}

function paragraphs(text) {
  return text.split(/\n\s*\n/).map((part) => part.trim()).filter(Boolean).map((part) => html`<p>${part}</p>`);
}

function monogram(id, name, size = "") {
  return html`<span class="monogram hue-${hue(id)} ${size}" aria-hidden="true">${initials(name)}</span>`;
}

function heart(full) {
  return html`<svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" fill="${full ? "currentColor" : "none"}" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round"><path d="M12 20.3S3.5 15.4 3.5 9.2A4.7 4.7 0 0 1 12 6.6a4.7 4.7 0 0 1 8.5 2.6c0 6.2-8.5 11.1-8.5 11.1Z"/></svg>`;
}

function sentence(text) {
  return text[0].toUpperCase() + text.slice(1);
}
