// What an indexing policy says of a path.

export interface IndexingPolicy { indexingMode?: string; includedPaths?: { path: string }[]; excludedPaths?: { path: string }[] }

const segments = (path: string) => path.split("/").slice(1).map((part) => part.replace(/^"(.*)"$/, "$1"));

/** How closely a path of a policy fits a property: by segments, an end in ? before one in *; 0 when it does not. */
function fit(pattern: string, property: string[]): number {
  const parts = segments(pattern), last = parts.pop();
  if (last !== "*" && last !== "?") return 0;
  if (parts.length > property.length || parts.some((part, at) => part !== property[at])) return 0;
  if (last === "?") return parts.length === property.length ? 2 * parts.length + 2 : 0;
  return 2 * parts.length + 1;
}

/** Whether a property is in the index, so that items can be ordered by it. Paths such as /a/b. */
export function isIndexed(policy: IndexingPolicy | undefined, path: string): boolean {
  if (!policy || policy.indexingMode === "none") return false;
  const property = segments(path);
  // The server indexes them whatever the policy says.
  if (property.length === 1 && (property[0] === "id" || property[0] === "_ts")) return true;
  const best = (paths: { path: string }[] = []) => Math.max(0, ...paths.map((one) => fit(one.path, property)));
  const inside = best(policy.includedPaths);
  return inside > 0 && inside >= best(policy.excludedPaths);
}
