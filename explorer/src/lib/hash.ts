// Where a partition key lies among the ranges of a container: the hash of version 2 of keys, as every SDK works it out.

const MASK = (1n << 64n) - 1n;
const C1 = 0x87c37b91114253d5n, C2 = 0x4cf5ad432745937fn;
const rotate = (value: bigint, by: bigint) => ((value << by) | (value >> (64n - by))) & MASK;
function finish(value: bigint): bigint {
  value ^= value >> 33n;
  value = (value * 0xff51afd7ed558ccdn) & MASK;
  value ^= value >> 33n;
  value = (value * 0xc4ceb9fe1a85ec53n) & MASK;
  return value ^ (value >> 33n);
}

/** MurmurHash3 of 128 bits with seed 0: low and high half. */
export function murmur(bytes: Uint8Array): [bigint, bigint] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const whole = bytes.length >> 4;
  let low = 0n, high = 0n;
  for (let block = 0; block < whole; block++) {
    const one = view.getBigUint64(block * 16, true), two = view.getBigUint64(block * 16 + 8, true);
    low ^= (rotate((one * C1) & MASK, 31n) * C2) & MASK;
    low = (((rotate(low, 27n) + high) & MASK) * 5n + 0x52dce729n) & MASK;
    high ^= (rotate((two * C2) & MASK, 33n) * C1) & MASK;
    high = (((rotate(high, 31n) + low) & MASK) * 5n + 0x38495ab5n) & MASK;
  }
  let one = 0n, two = 0n;
  for (let at = bytes.length - 1; at >= whole * 16; at--) {
    const place = BigInt(at - whole * 16);
    if (place < 8n) one |= BigInt(bytes[at]!) << (place * 8n);
    else two |= BigInt(bytes[at]!) << ((place - 8n) * 8n);
  }
  high ^= (rotate((two * C2) & MASK, 33n) * C1) & MASK;
  low ^= (rotate((one * C1) & MASK, 31n) * C2) & MASK;
  const length = BigInt(bytes.length);
  low ^= length;
  high ^= length;
  low = (low + high) & MASK;
  high = (high + low) & MASK;
  low = finish(low);
  high = finish(high);
  low = (low + high) & MASK;
  high = (high + low) & MASK;
  return [low, high];
}

function bytesOf(part: unknown): Uint8Array {
  if (part === null) return new Uint8Array([1]);
  if (part === false) return new Uint8Array([2]);
  if (part === true) return new Uint8Array([3]);
  if (typeof part === "number") {
    const bytes = new Uint8Array(9);
    bytes[0] = 5;
    new DataView(bytes.buffer).setFloat64(1, part, true);
    return bytes;
  }
  if (typeof part === "string") {
    const text = new TextEncoder().encode(part);
    const bytes = new Uint8Array(text.length + 2);
    bytes[0] = 8;
    bytes.set(text, 1);
    bytes[text.length + 1] = 0xff;
    return bytes;
  }
  return new Uint8Array([0]);
}

const hex = (half: bigint) => half.toString(16).padStart(16, "0").toUpperCase();

/** The effective key of a key header, for keys of one path (version 2) and of several. */
export function effectiveKey(header: string, hierarchical: boolean): string {
  const parts = JSON.parse(header) as unknown[];
  const clear = 0x3fffffffffffffffn;
  const one = (bytes: Uint8Array) => { const [low, high] = murmur(bytes); return hex(high & clear) + hex(low); };
  if (hierarchical) return parts.map((part) => one(bytesOf(part))).join("");
  return one(bytesOf(parts[0]));
}

/** The range that an effective key lies in. */
export function rangeOf<R extends { minInclusive: string; maxExclusive: string }>(ranges: R[], key: string): R | undefined {
  return ranges.find((range) => range.minInclusive <= key && (range.maxExclusive === "FF" || key < range.maxExclusive));
}
