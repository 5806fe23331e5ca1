/** Asks what our grammar of a schema allows, of the program models/grammar/judge. */
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");

/** Answers in the order of the questions, each of { schema, open, unchecked, instances }. */
export class Judge {
  #child;
  #folder;
  #waiting = [];

  constructor(child, folder) {
    this.#child = child;
    this.#folder = folder;
    const lines = readline.createInterface({ input: child.stdout });
    lines.on("line", (line) => this.#waiting.shift().done(JSON.parse(line)));
    child.on("exit", (code) => {
      for (const { failed } of this.#waiting) failed(new Error(`judge ended with ${code}`));
    });
  }

  /** Builds the program in a folder of its own, unless there is one already, and starts it. */
  static async start(built) {
    const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-schemas-"));
    const binary = built ?? path.join(folder, "judge");
    if (!built) await promisify(execFile)("go", ["build", "-o", binary, "./models/grammar/judge"], { cwd: root });
    return new Judge(spawn(binary, { stdio: ["pipe", "pipe", "inherit"] }), folder);
  }

  /** Returns { error } or { verdicts }: of each instance "allowed", "order" (allowed in another order) or "refused". */
  ask(question) {
    return new Promise((done, failed) => {
      this.#waiting.push({ done, failed });
      this.#child.stdin.write(`${JSON.stringify(question)}\n`);
    });
  }

  end() {
    this.#child.stdin.end();
    rmSync(this.#folder, { recursive: true });
  }
}
