/**
 * Measures what a new visitor has: in fresh browser profiles, in turn, a page loads a pair, waits as long as it takes
 * to read a sentence, and decodes prompts one after the other, plainly in one profile and by `auto` in the next. A
 * third decodes the first prompt plainly as often: what differs between the two plain ways is the machine's noise, and
 * what its first reply lacks of the last one's speed is what compiling in the background takes. Prints Markdown: `auto`
 * over plain decoding at the first, the second and the last reply. Natively the server does the same with fresh folders
 * of caches.
 *
 *   node test/first.mjs [--pairs builtin,q8,noisy,large-noisy] [--devices cpu,cpu-1,webgpu] [--profiles 10]
 *                       [--replies 10] [--tokens 64] [--pause SECONDS] [--adapter gpu] [--json FILE]
 *
 * cpu-1 is the cpu device with one thread; webgpu is Chromium's software adapter, or with --adapter gpu the machine's
 * own; native is the adapter of Vulkan, lavapipe where there is no GPU. A reply's time is that from the call to the
 * result, its prompt included; loading does not count. `cold` is the time from the address, or the command, to the
 * first token, without the pause.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { parseArgs, promisify } from "node:util";
import { markdown, median, MODELS, PAIRS } from "./pairs.mjs";
import { openPage, root, startProfile, startServer } from "./site.mjs";

const { values: flags } = parseArgs({
  options: {
    pairs: { type: "string", default: "builtin,q8,noisy,large-noisy" },
    devices: { type: "string", default: "cpu,cpu-1,webgpu" },
    profiles: { type: "string", default: "10" },
    replies: { type: "string", default: "10" },
    tokens: { type: "string", default: "64" },
    pause: { type: "string", default: "3" },
    adapter: { type: "string" },
    json: { type: "string" },
  },
});
const [profiles, replies, tokens] = [flags.profiles, flags.replies, flags.tokens].map(Number);
const DEVICES = {
  cpu: { title: "CPU", query: "device=cpu" },
  "cpu-1": { title: "CPU, one thread", query: "device=cpu&threads=1" },
  webgpu: { title: flags.adapter === "gpu" ? "GPU" : "SwiftShader", query: "device=webgpu" },
  native: { title: flags.adapter === "gpu" ? "GPU, natively" : "lavapipe, natively" },
};
const binary = path.join(os.tmpdir(), `foretoken-first-${process.pid}`);

/** The replies of one visit with their milliseconds, tokens and statistics; `loaded` is the time of loading. */
async function visit(server, pair, device, policy, prompts) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-first-"));
  const context = await startProfile(device === "webgpu", folder, { adapter: flags.adapter });
  try {
    const { page } = await openPage(context);
    const began = performance.now();
    await page.goto(`${server.url}bench.html?${pair.query}&${DEVICES[device].query}`);
    await page.evaluate(() => window.engine.load());
    const loaded = performance.now() - began;
    await page.waitForTimeout(1000 * Number(flags.pause));
    const all = [];
    for (const { prompt } of prompts)
      all.push(
        await page.evaluate(({ prompt, ...request }) => window.engine.generate(prompt, request), {
          prompt,
          policy,
          max_tokens: tokens,
        }),
      );
    return { all, loaded, chromium: context.browser()?.version() };
  } finally {
    await context.close();
    await fs.rm(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** The same of a visit to a server on this machine's Vulkan device. */
async function request(_server, pair, _device, policy, prompts) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-first-"));
  const began = performance.now();
  const options = ["--device", "native", "--addr", "127.0.0.1:0", "--json", "--quiet"];
  const child = spawn(binary, ["serve", ...options, ...pair.flags], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, XDG_CACHE_HOME: folder },
  });
  const ended = once(child, "exit");
  try {
    let ready;
    for await (const line of createInterface({ input: child.stdout })) {
      ready = JSON.parse(line);
      if (ready.event === "ready") break;
    }
    if (ready?.event !== "ready") throw new Error(`${pair.title}: the server ended while it loaded`);
    child.stdout.resume();
    const loaded = performance.now() - began;
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(flags.pause)));
    const all = [];
    for (const { prompt } of prompts) {
      const asked = { model: ready.model, prompt, max_tokens: tokens, temperature: 0, foretoken: { policy } };
      const headers = { "Content-Type": "application/json" };
      const begin = performance.now();
      const answer = await fetch(`${ready.url}/completions`, { method: "POST", headers, body: JSON.stringify(asked) });
      const { choices, usage, error } = await answer.json();
      if (error) throw new Error(`${pair.title}: ${error.message}`);
      all.push({ ms: performance.now() - begin, tokens: [choices[0].text], stats: usage.foretoken.stats });
    }
    return { all, loaded };
  } finally {
    child.kill();
    await ended;
    await fs.rm(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

const pairs = [];
let chromium;

async function measure(server, name, device) {
  const pair = PAIRS[name];
  const list = await pair.prompts();
  const visits = { none: [], auto: [], again: [] };
  const policies = Object.keys(visits);
  const cold = [];
  for (let i = 0; i < profiles; i++) {
    const prompts = Array.from({ length: replies }, (_, k) => list[(i + k) % list.length]);
    for (const [k] of policies.entries()) {
      const policy = policies[(i + k) % policies.length];
      const ask = device === "native" ? request : visit;
      const one = await (policy === "again"
        ? ask(server, pair, device, "none", Array(replies).fill(prompts[0]))
        : ask(server, pair, device, policy, prompts));
      visits[policy].push(one.all);
      cold.push(one.loaded + one.all[0].stats.ttft_ms);
      chromium ??= one.chromium;
    }
    for (const [k, plain] of visits.none[i].entries())
      if (plain.tokens.join() !== visits.auto[i][k].tokens.join())
        throw new Error(`${pair.title}, ${device}: auto decoded other tokens after ${prompts[k].id}`);
    const ratio = visits.none[i].map((plain, k) => (plain.ms / visits.auto[i][k].ms).toFixed(2));
    process.stderr.write(`${name} ${device} ${i + 1}/${profiles}: ${ratio.join(" ")}\n`);
  }
  const ratioAt = (k, policy = "auto") => median(visits.none.map((all, i) => all[k].ms / visits[policy][i][k].ms));
  const first = visits.auto.map(([reply]) => reply.stats);
  // Rates, as prompts differ: the slowest first reply of each.
  const slowest = (all) => Math.min(...all.map(([reply]) => reply.stats.output_tokens / reply.ms));
  pairs.push({
    title: `${pair.title}, ${DEVICES[device].title}`,
    rows: [
      {
        visits: profiles,
        cold: median(cold),
        ...Object.fromEntries([...new Set([1, 2, replies])].map((n) => [`reply${n}`, ratioAt(n - 1)])),
        slowest: slowest(visits.auto) / slowest(visits.none),
        again1: ratioAt(0, "again"),
        again_slowest: slowest(visits.again) / slowest(visits.none),
        settling: median(visits.again.map((all) => all[0].stats.decode_tok_s / all.at(-1).stats.decode_tok_s)),
        drafted: median(first.map((stats) => stats.drafted)),
        tau: median(first.map((stats) => stats.acceptance_length)),
      },
    ],
  });
}

const server = await startServer(MODELS);
try {
  if (flags.devices.split(",").includes("native"))
    await promisify(execFile)("go", ["build", "-o", binary, "./cmd/foretoken"], { cwd: root });
  for (const name of flags.pairs.split(","))
    for (const device of flags.devices.split(",")) await measure(server, name, device);
} finally {
  await server.stop();
  await fs.rm(binary, { force: true });
}
console.log(markdown(pairs));
const note =
  `fresh profiles, natively fresh servers, ${flags.pause} s after loading, ${replies} prompts of ${tokens} tokens ` +
  "one after the other, greedy, medians over the profiles";
if (flags.json) await fs.writeFile(flags.json, JSON.stringify({ chromium, note, pairs }));
