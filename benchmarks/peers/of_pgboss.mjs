// pg-boss: node of_pgboss.mjs open DSN | work DSN SHEET | add DSN COUNT

import { PgBoss } from "pg-boss";
import { Sheet, untilToldToStop } from "./sheet.mjs";

const [verb, connectionString, ...rest] = process.argv.slice(2);
const boss = new PgBoss({ connectionString, schedule: false, supervise: false });
boss.on("error", (error) => process.stderr.write(`${error}\n`));

const verbs = {
  async open() {
    await boss.start();
    await boss.createQueue("fire");
    await boss.stop({ graceful: false });
  },

  async work(path) {
    const sheet = new Sheet(path);
    await boss.start();
    // pg-boss allows no polling interval below half a second. It polls again immediately after a fetch of a full batch.
    const options = { batchSize: 1000, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true, localConcurrency: 2 };
    await boss.work("fire", options, async (jobs) => jobs.forEach((job) => sheet.note(job.data.due)));
    untilToldToStop(async () => {
      await boss.stop({ graceful: false });
      sheet.close();
    });
  },

  async add(count) {
    await boss.start();
    const began = performance.now();
    for (let done = 0; done < Number(count); done += 1000) {
      const startAfter = new Date(Date.now() + 86_400_000);
      await boss.insert("fire", Array.from({ length: 1000 }, () => ({ data: { due: 0 }, startAfter })));
    }
    process.stdout.write(`${(performance.now() - began) / 1000}\n`);
    await boss.stop({ graceful: false });
  },
};

await verbs[verb](...rest);
