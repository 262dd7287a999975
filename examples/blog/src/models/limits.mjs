// How long things get: lists are bounded, and a short form ends at a word.

/** Posts on the front page; V3 keeps no more than these in `feed` (see scripts/keep-newest.js). */
export const FEED_LENGTH = 100;
/** Posts of a user, comments or likes of a post on one page. */
export const LIST_LENGTH_MAX = 200;
export const PEOPLE_LENGTH = 100;
/** Characters of a post's content in its short form. */
const EXCERPT_LENGTH = 220;
/** What a query must hand out so that the excerpt can be cut from it: line ends shrink to a blank. */
export const EXCERPT_SOURCE_LENGTH = EXCERPT_LENGTH + 40;

/** The beginning of a text, cut between two words. */
export function excerpt(text) {
  const line = text.replaceAll(/\s+/g, " ").trim();
  if (line.length <= EXCERPT_LENGTH) return line;
  const cut = line.slice(0, EXCERPT_LENGTH);
  const end = cut.lastIndexOf(" ");
  return `${cut.slice(0, end > 0 ? end : EXCERPT_LENGTH).replace(/[\s.,;:–—-]+$/, "")}…`;
}
