/** Runs the end-to-end tests: all files, or the named ones, one after the other, each in its own process. */
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { NOT_RUN } from "./site.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const ALL = [
  "e2e",
  "page",
  "damaged",
  "links",
  "loading",
  "checkpoint",
  "api",
  "lost",
  "package",
  "openai",
  "widget",
  "examples",
  "strangers",
  "tabs",
  "threads",
  "engines",
  "kills",
  "peers",
  "soak",
];
const names = process.argv.length > 2 ? process.argv.slice(2) : ALL;
rmSync(NOT_RUN, { force: true });
const failed = names.filter((name) => {
  const begin = Date.now();
  const { status } = spawnSync(process.execPath, ["--test", path.join(here, `${name}.mjs`)], { stdio: "inherit" });
  console.log(`# ${name}.mjs: ${((Date.now() - begin) / 1000).toFixed(1)} s`);
  return status !== 0;
});
if (failed.length > 0) console.log(`# failed: ${failed.join(", ")}`);
process.exit(failed.length > 0 ? 1 : 0);
