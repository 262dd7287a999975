// Pictures of few colours take a quarter of the room with a palette: reads an RGB(A) PNG and writes one of 256 colours.
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { crc32, deflateSync, inflateSync } from "node:zlib";

/** Where pictures go. */
export const out = process.env.EXPLORER_PICTURES ?? join(dirname(fileURLToPath(import.meta.url)), "../../docs/images");
mkdirSync(out, { recursive: true });

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
const COLOURS_MAX = 256;

function chunks(file) {
  const found = [];
  for (let at = SIGNATURE.length; at < file.length; ) {
    const length = file.readUInt32BE(at);
    found.push({ type: file.toString("latin1", at + 4, at + 8), data: file.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  return found;
}

/** The pixels, three bytes each. */
function pixels(file) {
  const all = chunks(file);
  const head = all.find((one) => one.type === "IHDR").data;
  const [width, height, channels] = [head.readUInt32BE(0), head.readUInt32BE(4), { 2: 3, 6: 4 }[head[9]]];
  if (!channels || head[8] !== 8 || head[12]) return undefined;
  const raw = inflateSync(Buffer.concat(all.filter((one) => one.type === "IDAT").map((one) => one.data)));
  const stride = width * channels;
  const out = Buffer.alloc(width * height * 3);
  let before = Buffer.alloc(stride);
  for (let row = 0; row < height; row++) {
    const filter = raw[row * (stride + 1)];
    const line = Buffer.from(raw.subarray(row * (stride + 1) + 1, (row + 1) * (stride + 1)));
    for (let at = 0; at < stride; at++) {
      const left = at >= channels ? line[at - channels] : 0, up = before[at], corner = at >= channels ? before[at - channels] : 0;
      const guess = left + up - corner;
      const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
      const paeth = a <= b && a <= c ? left : b <= c ? up : corner;
      line[at] += [0, left, up, (left + up) >> 1, paeth][filter];
    }
    for (let x = 0; x < width; x++) line.copy(out, (row * width + x) * 3, x * channels, x * channels + 3);
    before = line;
  }
  return { width, height, out };
}

function chunk(type, data) {
  const named = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const size = Buffer.alloc(4), check = Buffer.alloc(4);
  size.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(named));
  return Buffer.concat([size, named, check]);
}

export function shrink(file) {
  const picture = pixels(file);
  if (!picture) return file;
  const { width, height, out } = picture;
  const counts = new Map();
  for (let at = 0; at < out.length; at += 3) { const colour = (out[at] << 16) | (out[at + 1] << 8) | out[at + 2]; counts.set(colour, (counts.get(colour) ?? 0) + 1); }
  // The most frequent colour of each small cube, the most frequent cubes first.
  const cubes = new Map();
  for (const [colour, count] of counts) {
    const name = ((colour >> 20) << 8) | (((colour >> 12) & 15) << 4) | ((colour >> 4) & 15);
    const cube = cubes.get(name) ?? { total: 0, best: 0, colour };
    cubes.set(name, { total: cube.total + count, best: Math.max(cube.best, count), colour: count > cube.best ? colour : cube.colour });
  }
  const exact = [...counts].sort((a, b) => b[1] - a[1]).slice(0, COLOURS_MAX / 2).map(([colour]) => colour);
  const spread = [...cubes.values()].sort((a, b) => b.total - a.total).map((cube) => cube.colour).filter((colour) => !exact.includes(colour));
  const palette = [...exact, ...spread].slice(0, COLOURS_MAX);
  const nearest = new Map();
  for (const colour of counts.keys()) {
    let best = 0, least = Infinity;
    palette.forEach((one, at) => { const distance = ((one >> 16) - (colour >> 16)) ** 2 + (((one >> 8) & 255) - ((colour >> 8) & 255)) ** 2 + ((one & 255) - (colour & 255)) ** 2; if (distance < least) { least = distance; best = at; } });
    nearest.set(colour, best);
  }
  const lines = Buffer.alloc((width + 1) * height);
  for (let row = 0; row < height; row++) for (let x = 0; x < width; x++) { const at = (row * width + x) * 3; lines[row * (width + 1) + 1 + x] = nearest.get((out[at] << 16) | (out[at + 1] << 8) | out[at + 2]); }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const colours = Buffer.concat(palette.map((colour) => Buffer.from([colour >> 16, (colour >> 8) & 255, colour & 255])));
  return Buffer.concat([SIGNATURE, chunk("IHDR", head), chunk("PLTE", colours), chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
