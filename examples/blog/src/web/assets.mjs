// The files that pages refer to: style, script, icon, and the typefaces from their packages.
import { readFile } from "node:fs/promises";

const PUBLIC = new URL("../../public/", import.meta.url);
const FONTS = new URL("../../node_modules/@fontsource-variable/", import.meta.url);

const FILES = new Map([
  ["blog.css", [PUBLIC, "blog.css", "text/css; charset=utf-8"]],
  ["blog.js", [PUBLIC, "blog.js", "text/javascript; charset=utf-8"]],
  ["meridian.svg", [PUBLIC, "meridian.svg", "image/svg+xml"]],
  ...["latin", "latin-ext"].flatMap((set) => [
    font(`newsreader-${set}.woff2`, `newsreader/files/newsreader-${set}-opsz-normal.woff2`),
    font(`newsreader-${set}-italic.woff2`, `newsreader/files/newsreader-${set}-opsz-italic.woff2`),
    font(`inter-${set}.woff2`, `inter/files/inter-${set}-wght-normal.woff2`),
  ]),
]);

function font(name, path) {
  return [name, [FONTS, path, "font/woff2"]];
}

/** Sends a file of the table above; nothing else can be named. */
export async function asset(pathname, response) {
  const found = FILES.get(pathname.slice("/assets/".length));
  if (!found) {
    response.writeHead(404, { "content-type": "text/plain" });
    return response.end("There is no such file.");
  }
  const [folder, path, type] = found;
  const age = type === "font/woff2" ? 86_400 : 0;
  response.writeHead(200, { "content-type": type, "cache-control": `max-age=${age}`, "x-content-type-options": "nosniff" });
  response.end(await readFile(new URL(path, folder)));
}
