// How a program reads one item, in the languages of the SDKs.

export interface Target { endpoint: string; database: string; container: string; id: string; key: string }

/** The values of a key header, as they are written in most languages. */
const values = (key: string) => key.slice(1, -1);
const quoted = (text: string) => JSON.stringify(text);

export const SNIPPETS: Record<string, (at: Target) => string> = {
  curl: (at) => `curl '${new URL(`dbs/${encodeURIComponent(at.database)}/colls/${encodeURIComponent(at.container)}/docs/${encodeURIComponent(at.id)}`, at.endpoint).href}' \\\n  -H 'x-ms-documentdb-partitionkey: ${at.key.replaceAll("'", "'\\''")}' -H 'x-ms-version: 2020-07-15' -H 'authorization: …'`,
  Python: (at) => `container.read_item(${quoted(at.id)}, partition_key=${python(at.key)})`,
  JavaScript: (at) => `const { resource } = await container.item(${quoted(at.id)}, ${several(at.key) ? at.key : values(at.key)}).read();`,
  Java: (at) => `container.readItem(${quoted(at.id)}, ${several(at.key) ? `new PartitionKeyBuilder()${parts(at.key).map((one) => `.add(${one})`).join("")}.build()` : `new PartitionKey(${values(at.key)})`}, JsonNode.class);`,
  ".NET": (at) => `await container.ReadItemAsync<dynamic>(${quoted(at.id)}, ${several(at.key) ? `new PartitionKeyBuilder()${parts(at.key).map((one) => `.Add(${one})`).join("")}.Build()` : `new PartitionKey(${values(at.key)})`});`,
  Go: (at) => `container.ReadItem(ctx, azcosmos.NewPartitionKey()${parts(at.key).map(goPart).join("")}, ${quoted(at.id)}, nil)`,
  Rust: (at) => `container.read_item(${several(at.key) ? `(${values(at.key)})` : values(at.key)}, ${quoted(at.id)}, None).await?`,
};

/** How a program stores a first item. */
export const INSERTS: Record<string, (item: string) => string> = {
  Python: (item) => `container.upsert_item(${item})`,
  JavaScript: (item) => `await container.items.upsert(${item});`,
  Java: (item) => `container.upsertItem(new ObjectMapper().readTree(${JSON.stringify(item)}));`,
  ".NET": (item) => `await container.UpsertItemAsync(JObject.Parse(${JSON.stringify(item)}));`,
  Go: (item) => `container.UpsertItem(ctx, key, []byte(\`${item}\`), nil)`,
  Rust: (item) => `container.upsert_item(key, serde_json::json!(${item}), None).await?;`,
  curl: (item) => `curl … -X POST -H 'x-ms-documentdb-is-upsert: true' -d '${item}'`,
};
const parts = (key: string) => { try { return (JSON.parse(key) as unknown[]).map((one) => JSON.stringify(one)); } catch { return [values(key)]; } };
const several = (key: string) => parts(key).length > 1;
function python(key: string): string {
  const words = parts(key).map((one) => (one === "null" ? "None" : one === "true" ? "True" : one === "false" ? "False" : one === "{}" ? "NonePartitionKeyValue" : one));
  return words.length > 1 ? `[${words.join(", ")}]` : (words[0] ?? "None");
}
const goPart = (one: string) => (one === "null" ? ".AppendNull()" : one[0] === '"' ? `.AppendString(${one})` : one === "true" || one === "false" ? `.AppendBool(${one})` : `.AppendNumber(${one})`);
