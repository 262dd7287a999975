// Settings come from the command line, else from the environment, else they are the defaults of a local server.
import { parseArgs } from "node:util";

/** The published key that every local emulator accepts; it protects nothing. */
const WELL_KNOWN_KEY =
  "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

export const VERSIONS = ["v1", "v2", "v3", "v3d"];
const USERS_MAX = 2_000;

export const HELP = `Meridian, a sample blog on the official JavaScript SDK, in four models of the same data.

  node blog.mjs serve   fill the databases when they are empty, then serve the pages
  node blog.mjs seed    fill the databases; --fresh throws away what is there first

  --model VERSION       v1, v2, v3 or v3d: where the front door leads (BLOG_MODEL, default v3)
  --port N              port of the pages (BLOG_PORT, default 8090)
  --host ADDRESS        address of the pages (default 127.0.0.1)
  --endpoint URL        the database server (ARMILLA_ENDPOINT, default http://localhost:8081/)
  --key KEY             its key (ARMILLA_KEY, default: the published key of local servers)
  --database NAME       prefix of the databases (BLOG_DATABASE, default blog)
  --users N             size of the sample data (default 40)
  --fresh               seed: delete the databases first
`;

const OPTIONS = {
  model: { type: "string" },
  port: { type: "string" },
  host: { type: "string" },
  endpoint: { type: "string" },
  key: { type: "string" },
  database: { type: "string" },
  users: { type: "string" },
  fresh: { type: "boolean" },
  help: { type: "boolean", short: "h" },
};

/** Reads the settings; anything that is not understood is an error with a sentence. */
export function readSettings(words, environment) {
  const { values, positionals } = parseArgs({ args: words, options: OPTIONS, allowPositionals: true });
  const settings = {
    command: values.help ? "help" : (positionals[0] ?? "help"),
    model: (values.model ?? environment.BLOG_MODEL ?? "v3").toLowerCase(),
    port: number("port", values.port ?? environment.BLOG_PORT ?? "8090", 0, 65_535),
    host: values.host ?? "127.0.0.1",
    endpoint: values.endpoint ?? environment.ARMILLA_ENDPOINT ?? "http://localhost:8081/",
    key: values.key ?? environment.ARMILLA_KEY ?? WELL_KNOWN_KEY,
    database: values.database ?? environment.BLOG_DATABASE ?? "blog",
    users: number("users", values.users ?? "40", 1, USERS_MAX),
    fresh: values.fresh ?? false,
  };
  if (positionals.length > 1) throw new Error(`one command at a time, not "${positionals.join(" ")}"`);
  if (!VERSIONS.includes(settings.model)) {
    throw new Error(`--model is one of ${VERSIONS.join(", ")}, not "${settings.model}"`);
  }
  return settings;
}

function number(name, text, least, most) {
  const value = Number(text);
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new Error(`--${name} is a whole number from ${least} to ${most}, not "${text}"`);
  }
  return value;
}
