#!/usr/bin/env node
/**
 * Compares what the program computes with scripts/baseline.json, a hash a row: what `generate` prints for prompts by
 * several methods on the cpu device and on a software GPU, the kernels that a GPU can be given, and the dispatches of
 * requests.
 *
 *   node scripts/baseline.mjs            names the rows that differ, and fails if there are any
 *   node scripts/baseline.mjs --write    records the rows
 *
 * build/baseline has the text of each row: to see a difference, compare it with the folder of another commit. Without a
 * software GPU (lavapipe) rows of the native device are not run, which fails if FORETOKEN_REQUIRE_GPU is 1, and are not
 * recorded.
 */
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const PROMPTS = 20;
const METHODS = ["chain", "eagle2", "sampled", "hetero", "c2t", "eagle3"];
const TEMPERATURES = [0, 0.8];
/** Tokens of an answer, by device: a software GPU takes some milliseconds for each row of a pass. */
const TOKENS = { cpu: 32, native: 8 };

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const record = path.join(root, "scripts", "baseline.json");
const folder = path.join(root, "build", "baseline");
const program = path.join(root, "build", "foretoken-baseline");
const prompts = path.join(root, "build", "prompts-baseline.jsonl");
// A cache of kernel choices that no other run wrote.
const env = { ...process.env, XDG_CACHE_HOME: path.join(root, "build", "baseline-cache"), FORETOKEN_BASELINE: folder };

/** Runs a program and resolves to its standard output. */
function run(file, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    let [out, err] = ["", ""];
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (err += data));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(out);
      else reject(new Error(`${file} ${args.join(" ")}:\n${out}${err}`));
    });
  });
}

/** The value without fields of time: durations, and rates by the second. */
function timeless(value) {
  if (Array.isArray(value) || value === null || typeof value !== "object") return value;
  const kept = Object.entries(value).filter(([name]) => !/_(ns|ms|tok_s)$/.test(name));
  return Object.fromEntries(kept.sort().map(([name, one]) => [name, timeless(one)]));
}

/** Writes the row of a method on a device. The trees of auto follow the clock, so that only its tokens count. */
async function generate(device, policy, temperature) {
  const settings = { device, policy, temperature, "max-tokens": TOKENS[device], "prompt-file": prompts };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const results = (await run(program, ["generate", "--json", ...args])).trimEnd().split("\n");
  const lines = results.map((line) => {
    const result = JSON.parse(line);
    const kept = policy === "auto" ? { id: result.id, token_ids: result.token_ids } : timeless(result);
    return `${JSON.stringify(kept)}\n`;
  });
  writeFileSync(path.join(folder, `generate, ${device} ${policy} at ${temperature}.txt`), lines.join(""));
}

/** Makes the rows and returns their hashes by name. */
async function measure(devices) {
  rmSync(folder, { recursive: true, force: true });
  rmSync(env.XDG_CACHE_HOME, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const lines = readFileSync(path.join(root, "testdata", "prompts-go.jsonl"), "utf8").split("\n");
  writeFileSync(prompts, `${lines.slice(0, PROMPTS).join("\n")}\n`);
  const jobs = [() => run("go", ["test", "-vet=off", "-count=1", "-run", "^TestBaseline$", "./audit"])];
  for (const device of devices)
    for (const policy of [...METHODS, "auto"])
      for (const temperature of TEMPERATURES) jobs.push(() => generate(device, policy, temperature));
  const work = async () => {
    for (let job = jobs.shift(); job; job = jobs.shift()) await job();
  };
  await Promise.all(Array.from({ length: Math.min(4, os.availableParallelism()) }, work));
  const hash = (file) => createHash("sha256").update(readFileSync(path.join(folder, file))).digest("hex");
  return Object.fromEntries(readdirSync(folder).sort().map((file) => [file.replace(/\.txt$/, ""), hash(file)]));
}

const writes = process.argv.includes("--write");
execFileSync("go", ["build", "-o", program, "./cmd/foretoken"], { cwd: root, stdio: "inherit" });
const { devices } = JSON.parse(await run(program, ["devices", "--json"]));
const gpu = devices.find((device) => device.backend === "native" && device.type === "software");
if (!gpu) {
  console.log("NOT RUN: the native device: no software GPU (mesa-vulkan-drivers)");
  if (writes || env.FORETOKEN_REQUIRE_GPU === "1") process.exit(1);
}
const rows = await measure(gpu ? ["cpu", "native"] : ["cpu"]);
if (writes) {
  writeFileSync(record, `${JSON.stringify({ gpu: `${gpu.name}, ${gpu.driver}`, rows }, null, 2)}\n`);
  console.log(`baseline: recorded ${Object.keys(rows).length} rows`);
} else {
  const recorded = JSON.parse(readFileSync(record, "utf8"));
  const all = Object.keys({ ...recorded.rows, ...rows });
  const names = all.filter((name) => gpu || !name.startsWith("generate, native"));
  const different = names.filter((name) => recorded.rows[name] !== rows[name]);
  for (const name of different) console.log(`baseline: ${name} differs`);
  if (different.length > 0) console.log(`baseline: recorded on ${recorded.gpu}; here ${gpu?.name}, ${gpu?.driver}`);
  console.log(`baseline: ${names.length - different.length} of ${names.length} rows are the same`);
  process.exitCode = different.length > 0 ? 1 : 0;
}
