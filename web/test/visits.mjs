/**
 * Measures what a new visitor of the page has, in fresh browser profiles, in turn: one presses Generate at once and
 * then again, by `auto` or plainly; another opens Compare and presses its button. Prints Markdown.
 *
 *   node test/visits.mjs [--conditions cpu,cpu-1,cpu-busy,cpu-1-busy] [--pairs builtin,half:5]
 *                        [--profiles 20] [--replies 4] [--adapter gpu] [--screenshots FOLDER] [--json FILE]
 *
 * A pair may have a number of profiles that differs from the others'; never is the built-in target with a draft whose
 * weights are zero. cpu is the device that `auto` takes without a GPU, cpu-1 the same with one thread; with busy,
 * another process keeps a core busy; webgpu is Chromium's software adapter, or with --adapter gpu the machine's own.
 *
 * In the table `ready` is the time from the address until the page takes a prompt, in ms; `reply1` the first reply's
 * speed over the plain one's, prompt included, and `replies` that of the later ones; `drafted` the tokens that drafts
 * proposed in the first reply; `compared` the ratio of the first Compare, `lowest_end` the least upper end of its
 * interval, and `unclear` the share without a clear result.
 */
import { spawn } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { muted } from "./gguf.mjs";
import { markdown, median, MODELS, PAIRS } from "./pairs.mjs";
import { beforeWorker, generated, openPage, root, startProfile, startServer, waitForState } from "./site.mjs";

const { values: flags } = parseArgs({
  options: {
    conditions: { type: "string", default: "cpu,cpu-1,cpu-busy,cpu-1-busy" },
    pairs: { type: "string", default: "builtin" },
    profiles: { type: "string", default: "20" },
    replies: { type: "string", default: "4" },
    adapter: { type: "string" },
    screenshots: { type: "string" },
    json: { type: "string" },
  },
});
const gpu = flags.adapter === "gpu" ? "GPU" : "SwiftShader";
const CONDITIONS = {
  cpu: { title: "CPU" },
  "cpu-1": { title: "CPU, one thread", one: true },
  "cpu-busy": { title: "CPU, beside a busy process", busy: true },
  "cpu-1-busy": { title: "CPU, one thread, beside a busy process", one: true, busy: true },
  webgpu: { title: gpu, webgpu: true, query: "device=webgpu" },
  "webgpu-busy": { title: `${gpu}, beside a busy process`, webgpu: true, query: "device=webgpu", busy: true },
};
/** The pairs, each with its number of profiles. */
const PLAN = flags.pairs.split(",").map((one) => {
  const [name, profiles = flags.profiles] = one.split(":");
  return [name, Number(profiles)];
});
const NEVER = {
  title: "a draft that never agrees",
  query: "target=models/demo-target.gguf&draft=models/demo-never.gguf",
};
const SIZES = [
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
];

/** A folder with the models of all pairs, for the server. */
async function models() {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-visits-models-"));
  const demo = (name) => path.join(root, "models", "demo", `${name}-q8_0.gguf`);
  await fs.copyFile(demo("target"), path.join(folder, "demo-target.gguf"));
  await fs.writeFile(path.join(folder, "demo-never.gguf"), muted(await fs.readFile(demo("draft"))));
  for (const [name] of PLAN)
    for (const [, file] of (PAIRS[name]?.query ?? "").matchAll(/models\/([^&]+)/g))
      await fs.copyFile(path.join(MODELS, file), path.join(folder, file), fs.constants.COPYFILE_FICLONE);
  return folder;
}

/** Opens the page in a fresh profile and runs `work` on it once it takes a prompt. */
async function visit(server, { query = "" }, condition, viewport, more, work) {
  const { one, webgpu = false, query: device = "" } = CONDITIONS[condition];
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-visits-"));
  const context = await startProfile(webgpu, folder, { viewport, adapter: flags.adapter });
  try {
    const { page } = await openPage(context);
    if (one) await beforeWorker(page, 'Object.defineProperty(navigator, "hardwareConcurrency", { value: 1 });');
    const began = performance.now();
    await page.goto(`${server.url}?${[query, device, more].filter(Boolean).join("&")}`);
    await waitForState(page, "ready");
    const ready = performance.now() - began;
    const { threads, backend } = await page.evaluate(
      () => document.querySelector("foretoken-widget").engine.info.device,
    );
    if (one && threads !== 1) throw new Error(`${condition}: the page runs on ${threads} threads`);
    if (webgpu !== (backend === "browser")) throw new Error(`${condition}: the page runs on ${backend}`);
    return { ...(await work(page)), ready, chromium: context.browser()?.version() };
  } finally {
    await context.close();
    await fs.rm(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

const search = (prompt, more) => `${prompt === undefined ? "" : `prompt=${encodeURIComponent(prompt)}`}${more}`;

/** Presses Generate at once, and again; returns the milliseconds of each reply, and the first one's statistics. */
async function replies(page) {
  const all = [];
  for (let i = 0; i < Number(flags.replies); i++)
    all.push(
      await page.evaluate(async () => {
        const begin = performance.now();
        const { stats, token_ids } = await document.querySelector("foretoken-widget").generate();
        return { ms: performance.now() - begin, stats, tokens: token_ids.join() };
      }),
    );
  return { all };
}

/** Opens Compare and presses its button. */
async function compared(page) {
  await page.click("#tab-compare");
  const { ratio, interval, turns, identical, verdict } = await generated(
    page,
    () => page.click("#compare-start"),
    "foretoken-compared",
  );
  if (!identical) throw new Error("Compare decoded other tokens");
  return { ratio, high: interval[1], low: interval[0], turns, line: verdict.line };
}

async function measure(server, name, profiles, condition) {
  const pair = name === "never" ? NEVER : PAIRS[name];
  const prompts = name === "builtin" || name === "never" ? [{}] : await pair.prompts();
  const rows = [];
  for (let i = 0; i < profiles; i++) {
    const viewport = SIZES[i % SIZES.length];
    const { prompt } = prompts[i % prompts.length];
    const to = (more, work) => visit(server, pair, condition, viewport, search(prompt, more), work);
    const ways = i % 2 ? ["none", "auto"] : ["auto", "none"]; // each comes first as often
    const of = {};
    for (const way of ways) of[way] = await to(way === "none" ? "&policy=none" : "", replies);
    const ratios = of.none.all.map((plain, k) => plain.ms / of.auto.all[k].ms);
    if (of.none.all[0].tokens !== of.auto.all[0].tokens) throw new Error(`${name}: auto decoded other tokens`);
    const first = of.auto.all[0].stats;
    const shot = flags.screenshots && i < SIZES.length && path.join(flags.screenshots, `${name}-${condition}-${i}.png`);
    const comparison = await to("", async (page) => {
      const result = await compared(page);
      if (shot) await page.screenshot({ path: shot });
      return result;
    });
    rows.push({
      ...comparison,
      reply1: ratios[0],
      replies: median(ratios.slice(1)),
      drafted: first.drafted,
      tau: first.acceptance_length,
    });
    const figures = [`first ${ratios[0].toFixed(2)}, later ${rows.at(-1).replies.toFixed(2)}`, comparison.line];
    process.stderr.write(`${name} ${condition} ${i + 1}/${profiles}: ${figures.join("; ")}\n`);
  }
  const of = (name) => rows.map((row) => row[name]);
  return {
    chromium: rows[0].chromium,
    title: `${pair.title}, ${CONDITIONS[condition].title}`,
    row: {
      visits: rows.length,
      ready: median(of("ready")),
      reply1: median(of("reply1")),
      replies: median(of("replies")),
      drafted: median(of("drafted")),
      tau: median(of("tau")),
      least_tau: Math.min(...of("tau")),
      compared: median(of("ratio")),
      least_compared: Math.min(...of("ratio")),
      lowest_end: Math.min(...of("high")),
      unclear: rows.filter(({ line }) => line.startsWith("No clear result")).length / rows.length,
      slower: rows.filter(({ line }) => line.startsWith("Slower")).length / rows.length,
      turns: median(of("turns")),
    },
  };
}

const folder = await models();
const server = await startServer(folder);
const pairs = [];
let chromium;
try {
  for (const [name, profiles] of PLAN)
    for (const condition of flags.conditions.split(",")) {
      const busy = CONDITIONS[condition].busy && spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" });
      try {
        const { title, row, ...rest } = await measure(server, name, profiles, condition);
        pairs.push({ title, rows: [row] });
        chromium ??= rest.chromium;
      } finally {
        if (busy) busy.kill("SIGKILL");
      }
    }
} finally {
  await server.stop();
  await fs.rm(folder, { recursive: true });
}
console.log(markdown(pairs));
const note =
  `fresh profiles, the page, Generate ${flags.replies} times at once after loading, by auto and plainly in turn; ` +
  "Compare in others; windows of 1280 by 800 and 390 by 844 in turn; medians over the profiles";
if (flags.json) await fs.writeFile(flags.json, JSON.stringify({ chromium, note, pairs }));
