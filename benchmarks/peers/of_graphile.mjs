// graphile-worker: node of_graphile.mjs open DSN | work DSN SHEET plain|local | add DSN COUNT

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { Sheet, untilToldToStop } from "./sheet.mjs";

const [verb, connectionString, ...rest] = process.argv.slice(2);
const quiet = new Logger(() => () => {});

const verbs = {
  async open() {
    const utils = await makeWorkerUtils({ connectionString, logger: quiet });
    await utils.migrate();
    await utils.release();
  },

  async work(path, queue) {
    const sheet = new Sheet(path);
    const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
    const preset = {
      worker: { connectionString, concurrentJobs: 24, maxPoolSize: 25, pollInterval: 100, ...(queue === "local" ? batched : {}) },
    };
    const taskList = { fire: async ({ due }) => sheet.note(due) };
    const runner = await run({ preset, taskList, logger: quiet, noHandleSignals: true });
    untilToldToStop(async () => {
      await runner.stop();
      sheet.close();
    });
  },

  // Adds jobs with the bulk function of graphile-worker, a thousand at a time; prints the seconds that this took.
  async add(count) {
    const utils = await makeWorkerUtils({ connectionString, logger: quiet });
    const began = performance.now();
    for (let done = 0; done < Number(count); done += 1000) {
      const runAt = new Date(Date.now() + 86_400_000);
      await utils.addJobs(Array.from({ length: 1000 }, () => ({ identifier: "fire", payload: { due: 0 }, runAt })));
    }
    process.stdout.write(`${(performance.now() - began) / 1000}\n`);
    await utils.release();
  },
};

await verbs[verb](...rest);
