// The databases, one per model, with the containers and scripts that each model declares.
import { readFileSync } from "node:fs";
import { CosmosClient } from "@azure/cosmos";
import { meterPlugin } from "./meter.mjs";
import { Copied } from "./models/v3.mjs";
import { Declared } from "./models/v3-declared.mjs";
import { Denormalised } from "./models/v2.mjs";
import { Normalised } from "./models/v1.mjs";

const MODELS = [Normalised, Denormalised, Copied, Declared];
/** Lets a view have a condition and a length. */
const EXTENDED_VIEWS = { initialHeaders: { "x-armilla-views": "extended" } };

/** A client whose requests are metered. */
export function connect({ endpoint, key }) {
  return new CosmosClient({ endpoint, key, plugins: [{ on: "request", plugin: meterPlugin }] });
}

/**
 * Opens the models, making whatever is missing; returns them by version: `{ v1, v2, v3, v3d }`. A server without such
 * views has the first three.
 */
export async function openModels(client, settings) {
  const opened = await Promise.all(
    MODELS.map(async (Model) => [Model.version, await openModel(client, Model, settings)]),
  );
  return Object.fromEntries(opened.filter(([, model]) => model));
}

/** Deletes the databases. */
export async function dropModels(client, settings) {
  for (const { version } of MODELS) {
    await client.database(databaseName(settings, version)).delete().catch(unlessMissing);
  }
}

async function openModel(client, Model, settings) {
  const { database } = await client.databases.createIfNotExists({ id: databaseName(settings, Model.version) });
  const containers = {};
  for (const { scripts = [], ...definition } of Model.containers) {
    const container = await openContainer(database, definition);
    if (!container) {
      console.error(`${Model.version} is left out: this server makes no view of "${definition.materializedViewDefinition.definition}"`);
      return undefined;
    }
    for (const script of scripts) await keepScript(container, script);
    containers[definition.id] = container;
  }
  return new Model(containers);
}

/** The container, made if it is missing; undefined when it is a view and the server refuses it. */
async function openContainer(database, definition) {
  if (!definition.materializedViewDefinition) return (await database.containers.createIfNotExists(definition)).container;
  try {
    return (await database.containers.createIfNotExists(definition, EXTENDED_VIEWS)).container;
  } catch (error) {
    if (error.code === 400) return undefined;
    throw error;
  }
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
