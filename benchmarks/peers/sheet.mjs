// Records the due date and the firing of each timer: two doubles, seconds since 1970, appended to a file.

import { closeSync, openSync, writeSync } from "node:fs";

const EVERY_MS = 50;

export class Sheet {
  constructor(path) {
    this.file = openSync(path, "a");
    this.values = [];
    this.timer = setInterval(() => this.flush(), EVERY_MS);
  }

  note(due) {
    this.values.push(due, (performance.timeOrigin + performance.now()) / 1000);
  }

  flush() {
    if (this.values.length) {
      writeSync(this.file, Buffer.from(Float64Array.from(this.values).buffer));
      this.values = [];
    }
  }

  close() {
    clearInterval(this.timer);
    this.flush();
    closeSync(this.file);
  }
}

// Calls a worker's `stop` when the benchmark closes the standard input of this process, and then exits.
export function untilToldToStop(stop) {
  process.stdout.write("ready\n");
  process.stdin.resume();
  process.stdin.on("end", async () => {
    await stop();
    process.exit(0);
  });
}
