// The change-feed worker: reads what changed in a container, lets the model react, and remembers how far it came in
// the container `checkpoints`. A batch is remembered after it was worked through, so one that breaks is read again;
// reactions may be repeated without harm.
import { ChangeFeedStartFrom } from "@azure/cosmos";
import { gather } from "./gather.mjs";
import { measure } from "./meter.mjs";

const BATCH_LENGTH = 100;
const PAUSE_MS = 1_000;
const PAUSE_AFTER_FAILURE_MS = 3_000;

/** Keeps the copies of one model up to date until it is stopped. */
export class Worker {
  /** What the worker did since it was made. */
  done = { changes: 0, requests: 0, charge: 0 };
  #model;
  #stopped = false;
  #rest = undefined;
  #running = undefined;
  #woken = false;

  constructor(model) {
    this.#model = model;
  }

  start() {
    if (this.#model.streams().length > 0) this.#running ??= this.#run();
  }

  /** Something was written: do not sleep on it. */
  wake() {
    this.#woken = true;
    this.#rest?.();
  }

  async stop() {
    this.#stopped = true;
    this.wake();
    await this.#running;
  }

  /** Works until no stream has anything new. One stream's work may be another's news. */
  async catchUp() {
    let changes;
    do {
      changes = 0;
      for (const stream of this.#model.streams()) changes += await this.#follow(stream);
    } while (changes > 0 && !this.#stopped);
  }

  async #run() {
    while (!this.#stopped) {
      this.#woken = false;
      let pause = PAUSE_MS;
      try {
        await this.catchUp();
      } catch (error) {
        console.error(`worker of ${this.#model.version}: ${error.message}`);
        pause = PAUSE_AFTER_FAILURE_MS;
      }
      if (!this.#woken) await this.#sleep(pause);
    }
  }

  async #sleep(milliseconds) {
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#rest = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#rest = undefined;
  }

  /** Reads one stream to its end; returns how many changes there were. */
  async #follow({ name, source, react }) {
    let changes = 0;
    const iterator = source.items.getChangeFeedIterator({
      maxItemCount: BATCH_LENGTH,
      changeFeedStartFrom: await this.#startOf(name),
    });
    while (!this.#stopped) {
      const page = await iterator.readNext();
      if (page.statusCode === 304) break;
      const { ledger } = await measure(() => gather(page.result, react));
      await this.#remember(name, page.continuationToken);
      changes += page.result.length;
      this.done.changes += page.result.length;
      this.done.requests += ledger.requests;
      this.done.charge += ledger.charge;
    }
    return changes;
  }

  async #startOf(name) {
    const { resource } = await this.#model.checkpoints.item(name, name).read();
    if (!resource) return ChangeFeedStartFrom.Beginning();
    return ChangeFeedStartFrom.Continuation(resource.continuation);
  }

  async #remember(name, continuation) {
    await this.#model.checkpoints.items.upsert({ id: name, continuation });
  }
}
