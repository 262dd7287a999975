// The sample data: the same people, posts, comments and likes every time, drawn from a small seeded generator.
import { COMMENTS, ENDINGS, FIRST_NAMES, LAST_NAMES, MIDDLES, OPENINGS, SUBJECTS, TITLES } from "./words.mjs";

const SEED = 20_190_523;
const POSTS_PER_USER = [2, 5];
const COMMENTS_MAX = 14;
const LIKES_SHARE_MAX = 0.8;
const FIRST_DAY = Date.UTC(2025, 0, 6, 6);
const LAST_DAY = Date.UTC(2025, 11, 30, 21);
const HOUR = 3_600_000;

/** Users and posts, each post with its comments and likes; everything by plain ids and dates. */
export function sample(userCount) {
  const dice = new Dice(SEED);
  const users = Array.from({ length: userCount }, (_, n) => ({ id: `u${pad(n + 1)}`, username: userName(n) }));
  const drafts = users.flatMap((user) => Array.from({ length: dice.between(...POSTS_PER_USER) }, () => user));
  const titles = dice.shuffle(allTitles());
  const posts = dice.shuffle(drafts).map((author, n) => {
    const creation = FIRST_DAY + ((LAST_DAY - FIRST_DAY) * (n + dice.next())) / drafts.length;
    const { title, subject, edition } = titles[n % titles.length];
    const round = Math.floor(n / titles.length);
    return {
      id: `p${pad(n + 1)}`,
      userId: author.id,
      title: round === 0 ? title : `${title} (${round + edition})`,
      content: story(dice, subject),
      creationDate: date(creation),
      comments: comments(dice, users, `p${pad(n + 1)}`, creation),
      likes: likes(dice, users, creation),
    };
  });
  return { users, posts };
}

function userName(n) {
  // Two steps that share no factor with the lengths: every first name meets every last name before any pair returns.
  const round = Math.floor(n / FIRST_NAMES.length);
  return `${FIRST_NAMES[n % FIRST_NAMES.length]} ${LAST_NAMES[(n * 7 + round) % LAST_NAMES.length]}`;
}

function allTitles() {
  return SUBJECTS.flatMap((subject) =>
    TITLES.map((title) => ({ title: fill(title, subject.name), subject, edition: 1 })),
  );
}

function story(dice, subject) {
  const middles = dice.shuffle([...MIDDLES]).slice(0, dice.between(1, 3));
  const own = dice.shuffle([...subject.own]);
  const paragraphs = [dice.pick(OPENINGS), `${own[0]} ${middles[0]}`];
  if (middles[1]) paragraphs.push(`${middles[1]} ${own[1]}`);
  if (middles[2]) paragraphs.push(middles[2]);
  paragraphs.push(dice.next() < 0.5 ? `${own[2]} ${dice.pick(ENDINGS)}` : dice.pick(ENDINGS));
  return fill(paragraphs.join("\n\n"), subject.name);
}

function comments(dice, users, postId, after) {
  const texts = dice.shuffle([...COMMENTS]).slice(0, dice.between(0, COMMENTS_MAX));
  let moment = after;
  return texts.map((content, n) => {
    moment += dice.between(1, 30) * HOUR * dice.next();
    return { id: `${postId}-c${pad(n + 1)}`, userId: dice.pick(users).id, content, creationDate: date(moment) };
  });
}

function likes(dice, users, after) {
  const share = LIKES_SHARE_MAX * dice.next() ** 2;
  return dice
    .shuffle([...users])
    .slice(0, Math.floor(users.length * share))
    .map(({ id }) => ({ id: `like-${id}`, userId: id, creationDate: date(after + dice.next() * 90 * HOUR) }));
}

function fill(text, name) {
  return text.replaceAll("{name}", name).replaceAll("{Name}", name[0].toUpperCase() + name.slice(1));
}

function date(milliseconds) {
  return new Date(Math.round(milliseconds)).toISOString();
}

function pad(n) {
  return String(n).padStart(4, "0");
}

/** A small generator of pseudo-random numbers (mulberry32): the same seed, the same sequence. */
class Dice {
  constructor(seed) {
    this.state = seed;
  }

  next() {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** A whole number, both ends included. */
  between(least, most) {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  pick(values) {
    return values[Math.floor(this.next() * values.length)];
  }

  shuffle(values) {
    for (let i = values.length - 1; i > 0; i--) {
      const j = Math.floor(this.next() * (i + 1));
      [values[i], values[j]] = [values[j], values[i]];
    }
    return values;
  }
}
