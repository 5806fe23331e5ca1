/**
 * Runs the end-to-end tests: all files, or the named ones, each in its own process. --jobs=N runs N files at a time and
 * prints the output of each when it ends; without it they run one after the other. FORETOKEN_FULL=1 runs LONG too.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { NOT_RUN } from "./site.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
/** All files, those that take longest first: with several jobs the last one to end starts early. */
const ALL = [
  "kills",
  "walk",
  "e2e",
  "lost",
  "loading",
  "page",
  "offline",
  "chat",
  "widget",
  "api",
  "damaged",
  "visit",
  "stage",
  "engines",
  "hosting",
  "links",
  "choosing",
  "threads",
  "package",
  "tabs",
  "styles",
  "compare",
  "peers",
  "examples",
  "openai",
  "completions",
  "checkpoint",
  "strangers",
];
/** What takes long and seldom fails alone: natively a smaller one runs each time. */
const LONG = ["soak"];
const args = process.argv.slice(2);
const jobs = Number(args.find((arg) => arg.startsWith("--jobs="))?.slice("--jobs=".length) ?? 1);
const named = args.filter((arg) => !arg.startsWith("--"));
const waiting = named.length > 0 ? named : process.env.FORETOKEN_FULL ? [...LONG, ...ALL] : ALL;
const failed = [];
rmSync(NOT_RUN, { force: true });

async function run(name) {
  const begin = Date.now();
  const stdio = jobs > 1 ? ["ignore", "pipe", "inherit"] : "inherit";
  const child = spawn(process.execPath, ["--test", path.join(here, `${name}.mjs`)], { stdio });
  const [output, [status]] = await Promise.all([child.stdout ? buffer(child.stdout) : "", once(child, "close")]);
  process.stdout.write(output);
  console.log(`# ${name}.mjs: ${((Date.now() - begin) / 1000).toFixed(1)} s`);
  if (status !== 0) failed.push(name);
}

await Promise.all(
  Array.from({ length: jobs }, async () => {
    while (waiting.length > 0) await run(waiting.shift());
  }),
);
if (failed.length > 0) console.log(`# failed: ${failed.join(", ")}`);
process.exitCode = failed.length > 0 ? 1 : 0;
