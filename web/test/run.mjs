/**
 * Runs the end-to-end tests, one file after the other, each in a process of its own. A file that fails is run again
 * FORETOKEN_RETRIES times (none unless set): what a loaded machine did to a browser is then told apart from what is
 * broken. A file that passes only the second time is named at the end as flaky, which is a fault of the test to mend.
 */
import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const ALL = ["e2e", "page", "loading", "checkpoint", "api", "lost", "package", "openai", "widget", "examples", "strangers", "tabs", "peers", "soak"];
const retries = Number(process.env.FORETOKEN_RETRIES ?? 0);
const names = process.argv.length > 2 ? process.argv.slice(2) : ALL;
const flaky = [];
const failed = [];

for (const name of names) {
  let tries = 0;
  let status;
  do {
    if (tries > 0) console.log(`# ${name}.mjs failed, and is run again`);
    ({ status } = spawnSync(process.execPath, ["--test", path.join(here, `${name}.mjs`)], { stdio: "inherit" }));
  } while (status !== 0 && tries++ < retries);
  if (status !== 0) failed.push(name);
  else if (tries > 0) flaky.push(name);
}
if (flaky.length > 0) console.log(`# FLAKY, passed when run again: ${flaky.join(", ")}`);
if (failed.length > 0) console.log(`# failed: ${failed.join(", ")}`);
process.exit(failed.length > 0 ? 1 : 0);
