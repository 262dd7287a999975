// The three databases, one per model, with the containers and scripts that each model declares.
import { readFileSync } from "node:fs";
import { CosmosClient } from "@azure/cosmos";
import { meterPlugin } from "./meter.mjs";
import { Copied } from "./models/v3.mjs";
import { Denormalised } from "./models/v2.mjs";
import { Normalised } from "./models/v1.mjs";

const MODELS = [Normalised, Denormalised, Copied];

/** A client whose requests are metered. */
export function connect({ endpoint, key }) {
  return new CosmosClient({ endpoint, key, plugins: [{ on: "request", plugin: meterPlugin }] });
}

/** Opens the three models, making whatever is missing; returns them by version: `{ v1, v2, v3 }`. */
export async function openModels(client, settings) {
  const opened = await Promise.all(
    MODELS.map(async (Model) => [Model.version, await openModel(client, Model, settings)]),
  );
  return Object.fromEntries(opened);
}

/** Deletes the three databases. */
export async function dropModels(client, settings) {
  for (const { version } of MODELS) {
    await client.database(databaseName(settings, version)).delete().catch(unlessMissing);
  }
}

async function openModel(client, Model, settings) {
  const { database } = await client.databases.createIfNotExists({ id: databaseName(settings, Model.version) });
  const containers = {};
  for (const { scripts = [], ...definition } of Model.containers) {
    const { container } = await database.containers.createIfNotExists(definition);
    for (const script of scripts) await keepScript(container, script);
    containers[definition.id] = container;
  }
  return new Model(containers);
}

function databaseName(settings, version) {
  return `${settings.database}-${version}`;
}

/** Creates a script, or replaces one whose text has changed. */
async function keepScript(container, { kind, file, ...definition }) {
  const body = readFileSync(new URL(`scripts/${file}`, import.meta.url), "utf8");
  const wanted = { ...definition, body };
  const one = kind === "trigger" ? container.scripts.trigger(wanted.id) : container.scripts.storedProcedure(wanted.id);
  const all = kind === "trigger" ? container.scripts.triggers : container.scripts.storedProcedures;
  const { resource } = await one.read().catch(unlessMissing);
  if (!resource) await all.create(wanted);
  else if (resource.body !== body) await one.replace(wanted);
}

function unlessMissing(error) {
  if (error.code !== 404) throw error;
  return {};
}
