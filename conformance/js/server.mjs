// The server under test and fresh things on it: ARMILLA_ENDPOINT (default http://localhost:8081/) and
// ARMILLA_KEY (default: the published key of local emulators). Set NODE_TLS_REJECT_UNAUTHORIZED=0 for https
// with a certificate of the server's own. Each test file makes one database and removes it.
import { randomUUID } from "node:crypto";
import { after } from "node:test";
import { CosmosClient } from "@azure/cosmos";

export const endpoint = process.env.ARMILLA_ENDPOINT ?? "http://localhost:8081/";
export const key =
  process.env.ARMILLA_KEY ??
  "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

export const client = new CosmosClient({ endpoint, key });

export const newName = (prefix) => `${prefix}-${randomUUID().slice(0, 12)}`;

/** The file's database; call and await once at the top of a test file. */
export async function useDatabase() {
  const { database } = await client.databases.create({ id: newName("js") });
  after(async () => {
    await database.delete();
    client.dispose();
  });
  const holder = { database };
  /** A fresh container; the definition may change anything. */
  holder.container = async (definition = {}, options = {}) => {
    const wanted = { id: newName("c"), partitionKey: { paths: ["/pk"] }, ...definition };
    return (await database.containers.create(wanted, options)).container;
  };
  return holder;
}

/** The error that a promise is rejected with. */
export async function refused(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it should have been refused");
}

/** All rows of a query. */
export async function rows(container, query, options = {}) {
  return (await container.items.query(query, options).fetchAll()).resources;
}

const SYSTEM = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/** An item without what the server adds. */
export function userPart(item) {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !SYSTEM.includes(name)));
}
