/**
 * The npm package in every bundler that README.md and docs/ name: each builds a page, and the page and a worker of its
 * own load the built-in pair. `make test` has the production builds, FORETOKEN_FULL=1 the development builds too.
 * Needs build/foretoken-VERSION.tgz (`make package`). The versions are in bundlers/package.json.
 */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { promises as fs } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { startHost } from "./host.mjs";
import { limit, openPage, root, startBrowser, web } from "./site.mjs";

const run = promisify(execFile);
// The underscore keeps Go's tools out of what npm puts there.
const work = path.join(root, "build", "_bundlers");
const TRIED = ["webpack", "rspack", "rollup", "esbuild", "parcel", "vite"];
const MODES = process.env.FORETOKEN_FULL ? ["production", "development"] : ["production"];

let browser;
const cleanups = [];

before(async () => {
  const own = path.join(web, "test", "bundlers");
  await fs.mkdir(work, { recursive: true });
  await fs.cp(own, work, { recursive: true, filter: (file) => !file.includes("node_modules") });
  // node_modules stays while the lock file is the same.
  const lock = await fs.readFile(path.join(own, "package-lock.json"), "utf8");
  const installed = path.join(work, "node_modules", ".built-from");
  if ((await fs.readFile(installed, "utf8").catch(() => "")) !== lock) {
    await run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: work });
    await fs.writeFile(installed, lock);
  }
  const { version } = JSON.parse(await fs.readFile(path.join(web, "package.json"), "utf8"));
  const library = path.join(work, "node_modules", "foretoken");
  await fs.rm(library, { recursive: true, force: true });
  await fs.mkdir(library);
  const packed = path.join(root, "build", `foretoken-${version}.tgz`);
  await run("tar", ["-xzf", packed, "--strip-components=1", "-C", library]);
  browser = await startBrowser(false);
}, limit);

after(async () => {
  await browser?.close();
  for (const clean of cleanups) await clean();
});

/** Builds with a bundler and returns the address of the page. */
async function built(name, mode) {
  const script = path.join(work, "build.mjs");
  if (mode === "production" || !["parcel", "vite"].includes(name)) {
    await run(process.execPath, [script, name, mode], { cwd: work, maxBuffer: 1 << 26 });
    const host = await startHost({ folders: { "/": path.join(work, "out", mode, name) } });
    cleanups.push(() => host.stop());
    return host.url;
  }
  const server = spawn(process.execPath, [script, name, mode], { cwd: work, stdio: ["pipe", "pipe", "inherit"] });
  cleanups.push(() => server.kill());
  for await (const line of createInterface({ input: server.stdout })) if (/^http:/.test(line)) return line;
  throw new Error(`${name} gave no address`);
}

describe("bundlers", { concurrency: 2 }, () => {
  for (const mode of MODES)
    for (const name of TRIED)
      test(`${name}, ${mode}`, limit, async () => {
        const address = await built(name, mode);
        const { page, record } = await openPage(browser);
        await page.goto(address);
        const got = await page.waitForFunction(() => globalThis.got).then((got) => got.jsonValue());
        await page.close();
        assert.deepEqual(record.errors, []);
        assert.match(got.page, /^\n\t/);
        assert.equal(got.worker, got.page);
      });
});

test("texts name the bundlers that are tried, in their versions, and no other", async () => {
  const known = ["browserify", "bun", "esbuild", "farm", "parcel", "rolldown", "rollup", "rspack", "rsbuild",
    "snowpack", "turbopack", "vite", "webpack"];
  const named = new RegExp(`\\b(${known.join("|")})\\b`, "gi");
  const texts = await Promise.all(
    ["README.md", "web/README.md", "docs/frameworks.md"].map((file) => fs.readFile(path.join(root, file), "utf8")),
  );
  const names = new Set(texts.flatMap((text) => [...text.matchAll(named)].map(([name]) => name.toLowerCase())));
  assert.deepEqual([...names].sort(), [...TRIED].sort());
  const { devDependencies: versions } = JSON.parse(await fs.readFile(path.join(work, "package.json"), "utf8"));
  const tried = TRIED.map((name) => `${name} ${versions[name] ?? versions[`@${name}/core`]}`);
  for (const one of tried) assert.ok(texts[1].replace(/\s+/g, " ").toLowerCase().includes(one), `README.md: ${one}`);
});
