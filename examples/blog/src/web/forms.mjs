// What people send: read within limits, checked, refused with a sentence.

export const TITLE_LENGTH_MAX = 120;
export const CONTENT_LENGTH_MAX = 20_000;
export const COMMENT_LENGTH_MAX = 2_000;
export const NAME_LENGTH_MAX = 60;
const BODY_LENGTH_MAX = 100_000;

/** Something a visitor did that cannot be done; the message is shown. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Reads the fields of a form. */
export async function readForm(request) {
  // A page of another site must not post in the visitor's name.
  const origin = request.headers.origin;
  if (origin && origin !== "null" && new URL(origin).host !== request.headers.host) {
    throw new Refusal(403, "That form belongs to another site.");
  }
  const parts = [];
  let length = 0;
  for await (const part of request) {
    length += part.length;
    if (length > BODY_LENGTH_MAX) throw new Refusal(413, "That is too long.");
    parts.push(part);
  }
  return new URLSearchParams(Buffer.concat(parts).toString("utf8"));
}

/** A field that must be there, trimmed, with line ends made equal. */
export function field(form, name, lengthMax) {
  const text = (form.get(name) ?? "").replaceAll("\r\n", "\n").trim();
  if (!text) throw new Refusal(400, `The field “${name}” is empty.`);
  if (text.length > lengthMax) throw new Refusal(400, `The field “${name}” has more than ${lengthMax} characters.`);
  return text;
}

/** Where to go after a form: a path below the version, never another site. */
export function backTo(text, otherwise) {
  return /^[a-zA-Z0-9/_-]*$/.test(text ?? "") && !(text ?? "").startsWith("/") ? (text ?? otherwise) : otherwise;
}
