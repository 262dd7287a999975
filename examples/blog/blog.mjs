// Meridian: `node blog.mjs serve` and `node blog.mjs seed`. See README.md.
import { HELP, readSettings } from "./src/settings.mjs";
import { connect, dropModels, openModels } from "./src/store.mjs";
import { isEmpty, seed } from "./src/seed.mjs";
import { makeServer } from "./src/web/server.mjs";
import { Worker } from "./src/worker.mjs";

const COMMANDS = { serve, seed: seedAll, help: async () => console.log(HELP) };

try {
  const settings = readSettings(process.argv.slice(2), process.env);
  const command = COMMANDS[settings.command];
  if (!command) throw new Error(`there is no command "${settings.command}"; try: node blog.mjs help`);
  await command(settings);
} catch (error) {
  console.error(`blog: ${explain(error)}`);
  process.exitCode = 1;
}

/** Serves the pages until the process is told to stop. */
async function serve(settings) {
  const client = connect(settings);
  const models = await openModels(client, settings);
  if (!models[settings.model]) throw new Error(`this server cannot keep the model ${settings.model}; choose another with --model`);
  await fill(models, settings);
  const workers = Object.fromEntries(Object.entries(models).map(([version, model]) => [version, new Worker(model)]));
  for (const worker of Object.values(workers)) worker.start();
  const server = makeServer({ models, workers, settings });
  await new Promise((resolve, reject) => server.once("error", reject).listen(settings.port, settings.host, resolve));
  console.log(`Meridian is ready: http://${settings.host}:${server.address().port}/`);
  const stop = async () => {
    server.close();
    server.closeAllConnections();
    await Promise.all(Object.values(workers).map((worker) => worker.stop()));
    client.dispose();
  };
  process.once("SIGINT", stop).once("SIGTERM", stop);
}

/** Fills the databases from the command line. */
async function seedAll(settings) {
  const client = connect(settings);
  if (settings.fresh) await dropModels(client, settings);
  const filled = await fill(await openModels(client, settings), settings);
  if (!filled) console.log("The databases have data already; --fresh throws it away and starts over.");
  client.dispose();
}

/** Loads the sample data into each model that is empty; says whether any was. */
async function fill(models, settings) {
  let filled = false;
  for (const model of Object.values(models)) {
    if (!(await isEmpty(model))) continue;
    await seed(model, settings.users, console.log);
    filled = true;
  }
  return filled;
}

function explain(error) {
  if (error.code === "ECONNREFUSED" || error.message?.includes("ECONNREFUSED")) {
    return "no database server answers there. Start one first (cargo run --release), or name it with --endpoint.";
  }
  return error.message || String(error);
}
