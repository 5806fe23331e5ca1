/**
 * Compares `auto` with plain decoding in Chromium, one after the other in the same page: x26m
 * in two formats and with two drafts, and the built-in pair. Also prints the upper bound from the costs of passes in
 * the same page: the maximum over K of E/(T_v + T_d), see Session.MeasureCosts. `long` runs only if named: it times
 * passes of x26m after short and long texts, by the type of keys and values. Prints Markdown.
 *
 *   node test/auto.mjs [--pairs q8,q4,noisy,large,builtin,screen,long] [--prompts N] [--only ID,...] [--repeat 5]
 *                      [--tokens 64] [--twice] [--seconds S] [--keep FILE] [--json FILE] [--device cpu|webgpu]
 *                      [--adapter gpu]
 *
 * The device is cpu, which pages take where there is no GPU; webgpu is Chromium's software adapter, or with --adapter
 * gpu the machine's own.
 * With --twice each repetition decodes plainly a second time; the difference shows the noise of single prompts. Results
 * go to FILE (build/bench-auto.jsonl), and the same command continues from there; --seconds limits a run.
 */
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { trainedFor } from "./gguf.mjs";
import { byCategory, interval, mean, median, MODELS, PAIRS } from "./pairs.mjs";
import { beforeWorker, openPage, root, startBrowser, startServer, waitForState } from "./site.mjs";

const { values: flags } = parseArgs({
  options: {
    pairs: { type: "string", default: "q8,q4,noisy,builtin,screen" },
    prompts: { type: "string" },
    only: { type: "string" },
    repeat: { type: "string", default: "5" },
    tokens: { type: "string", default: "64" },
    twice: { type: "boolean", default: false },
    seconds: { type: "string" },
    keep: { type: "string", default: path.join(root, "build", "bench-auto.jsonl") },
    json: { type: "string" },
    device: { type: "string", default: "cpu" },
    adapter: { type: "string", default: "swiftshader" },
  },
});
/** The policies to run in turn, by the names of their columns. */
const ARMS = { none: "none", auto: "auto", ...(flags.twice ? { again: "none" } : {}) };
const repeat = Number(flags.repeat);
const tokens = Number(flags.tokens);
const until = flags.seconds ? Date.now() + 1000 * Number(flags.seconds) : Infinity;

/** The results: one JSON object per line. */
class Kept {
  #lines = [];
  static async open(file) {
    const kept = new Kept();
    kept.file = file;
    await fs.mkdir(path.dirname(file), { recursive: true });
    const text = await fs.readFile(file, "utf8").catch(() => "");
    kept.#lines = text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line));
    return kept;
  }
  find(match) {
    return this.#lines.filter((line) => Object.entries(match).every(([key, value]) => line[key] === value));
  }
  async add(line) {
    this.#lines.push(line);
    await fs.appendFile(this.file, JSON.stringify(line) + "\n");
  }
}

/**
 * Rotates and alternately reverses the list, so that each item comes first, and after each other item, equally often.
 */
function turned(list, by) {
  const from = by % list.length;
  const out = [...list.slice(from), ...list.slice(0, from)];
  return Math.floor(by / list.length) % 2 === 0 ? out : out.reverse();
}
const late = () => Date.now() > until;
/** The rows of the tables, for --json. */
const summaries = [];

async function measure(browser, server, name, kept) {
  const pair = PAIRS[name];
  const only = flags.only?.split(",");
  const prompts = (await pair.prompts())
    .filter((p) => !only || only.includes(p.id))
    .slice(0, flags.prompts ? Number(flags.prompts) : undefined);
  const todo = [];
  for (let rep = 0; rep < repeat; rep++)
    for (const p of prompts)
      if (kept.find({ kind: "cell", pair: name, id: p.id, rep, tokens }).length === 0) todo.push({ p, rep });
  const unknown = prompts.filter((p) => kept.find({ kind: "foreseen", pair: name, id: p.id, tokens }).length === 0);
  if (todo.length === 0 && unknown.length === 0) return prompts;
  const { page } = await openPage(await browser.newContext());
  await page.goto(`${server.url}bench.html?${pair.query}&device=${flags.device}`);
  const info = await page.evaluate(() => window.engine.load());
  const run = (p, policy) =>
    page.evaluate(
      ({ prompt, policy, tokens }) => window.engine.generate(prompt, { policy, max_tokens: tokens, no_reuse: true }),
      { prompt: p.prompt, policy, tokens },
    );
  // Warm up: compilation, timing and first memory accesses.
  for (const policy of ["none", "auto"]) await run(prompts[0], policy);
  if (!late()) {
    const costs = await page.evaluate(() => window.engine.costs());
    await kept.add({
      kind: "costs",
      pair: name,
      adapter: info.device.adapter,
      driver: info.device.driver,
      kernels: info.kernels,
      verify: costs.verify,
      chain: costs.chain,
    });
  }
  for (const { p, rep } of todo) {
    if (late()) break;
    const cell = {};
    for (const arm of turned(Object.keys(ARMS), rep + prompts.indexOf(p))) {
      const { ms, stats, tokens: ids } = await run(p, ARMS[arm]);
      cell[arm] = {
        tok_s: stats.decode_tok_s,
        ms,
        length: stats.acceptance_length,
        rounds: stats.rounds,
        per_round: {
          draft: stats.draft_ms,
          verify: stats.verify_ms,
          readback: stats.readback_ms,
          host: stats.host_ms,
        },
        ids,
      };
    }
    const same = cell.none.ids.join() === cell.auto.ids.join();
    const { none, auto } = cell;
    for (const arm of Object.values(cell)) delete arm.ids;
    await kept.add({ kind: "cell", pair: name, id: p.id, category: p.category, rep, tokens, same, ...cell });
    process.stderr.write(
      `${name} ${p.id} ${rep + 1}/${repeat}: plain ${none.tok_s.toFixed(1)}, auto ${auto.tok_s.toFixed(1)} tok/s, ` +
      `${(auto.tok_s / none.tok_s).toFixed(2)}x${same ? "" : " BUT OTHER TOKENS"}\n`,
    );
  }
  for (const p of unknown) {
    if (late()) break;
    const costs = await page.evaluate(
      ({ p, tokens }) => window.engine.costs({ rows: [1], repeat: 1, prompts: [p], max_tokens: tokens }),
      { p, tokens },
    );
    await kept.add({ kind: "foreseen", pair: name, id: p.id, tokens, expected: costs.chains.map((c) => c.tokens) });
  }
  await page.context().close();
  return prompts;
}

/** Returns E/(T_v + T_d) relative to plain decoding for each K, with the median of the measured curves. */
function ceiling(kept, name, expected) {
  const curves = kept.find({ kind: "costs", pair: name });
  if (curves.length === 0 || !expected) return undefined;
  const time = (of) => {
    const by = new Map();
    for (const c of curves) for (const { n, ms } of c[of]) by.set(n, [...(by.get(n) ?? []), ms]);
    return new Map([...by].map(([n, list]) => [n, median(list)]));
  };
  const verify = time("verify"),
    chain = time("chain");
  const rows = [...verify.keys()].sort((a, b) => a - b);
  let best = { k: 0, speedup: 1 };
  for (const [i, e] of expected.entries()) {
    const k = i + 1,
      at = rows.find((n) => n >= k + 1);
    if (at === undefined || !chain.has(k)) break;
    const speedup = (e * verify.get(1)) / (verify.get(at) + chain.get(k));
    if (speedup > best.speedup) best = { k, speedup };
  }
  return best;
}

function report(kept, name, prompts) {
  const out = [];
  const rows = [];
  for (const p of prompts) {
    const cells = kept.find({ kind: "cell", pair: name, id: p.id, tokens });
    if (cells.length === 0) continue;
    const [foreseen] = kept.find({ kind: "foreseen", pair: name, id: p.id, tokens });
    rows.push({
      p,
      cells,
      expected: foreseen?.expected,
      ratio: median(cells.map((c) => c.auto.tok_s / c.none.tok_s)),
      again: cells.every((c) => c.again) ? median(cells.map((c) => c.again.tok_s / c.none.tok_s)) : undefined,
      plain: median(cells.map((c) => c.none.tok_s)),
      auto: median(cells.map((c) => c.auto.tok_s)),
      length: mean(cells.map((c) => c.auto.length)),
      most: ceiling(kept, name, foreseen?.expected),
    });
  }
  if (rows.length === 0) return out;
  const line = (...cells) => out.push(`| ${cells.join(" | ")} |`);
  const shown = (c) => (c ? `${c.speedup.toFixed(2)}× (K = ${c.k})` : "–");
  // For several texts of one length, rounds and tokens add up.
  const whole = (list) => {
    const known = list.filter((r) => r.expected);
    if (known.length === 0) return undefined;
    return ceiling(
      kept,
      name,
      known[0].expected.map((_, i) => known.length / known.reduce((sum, r) => sum + 1 / r.expected[i], 0)),
    );
  };
  const time = (list, of) => list.reduce((sum, r) => sum + median(r.cells.map((c) => tokens / c[of].tok_s)), 0);
  const speedup = (list) => time(list, "none") / time(list, "auto");
  out.push(
    `### ${PAIRS[name].title}`,
    "",
    `${rows.length} prompts, ${tokens} tokens each, median of up to ${repeat} interleaved repetitions ` +
    `(${Math.min(...rows.map((r) => r.cells.length))} at least), greedy.`,
    "",
  );
  line("", "plain tok/s", "auto tok/s", "speedup", "ceiling", "tokens a pass", "worst prompt");
  line("---", "---", "---", "---", "---", "---", "---");
  const table = [];
  summaries.push({ name, title: PAIRS[name].title, rows: table });
  const summary = (title, list) => {
    const worst = list.reduce((a, b) => (b.ratio < a.ratio ? b : a));
    line(
      title,
      mean(list.map((r) => r.plain)).toFixed(1),
      mean(list.map((r) => r.auto)).toFixed(1),
      `${speedup(list).toFixed(2)}×`,
      shown(whole(list)),
      mean(list.map((r) => r.length)).toFixed(2),
      `${worst.ratio.toFixed(2)}× (${worst.p.id})`,
    );
  };
  const tabled = (category, list) => {
    const [low, high] = interval(list, speedup);
    table.push({
      category,
      prompts: list.length,
      plain_tok_s: mean(list.map((r) => r.plain)),
      auto_tok_s: mean(list.map((r) => r.auto)),
      speedup: speedup(list),
      low,
      high,
      ceiling: whole(list)?.speedup,
      tau: mean(list.map((r) => r.length)),
      worst: Math.min(...list.map((r) => r.ratio)),
    });
  };
  const by = byCategory(rows, (r) => r.p);
  if (by.size > 1) for (const [category, list] of by) summary(category, list);
  summary("**all**", rows);
  if (by.size > 1) for (const [category, list] of by) tabled(category, list);
  tabled(undefined, rows);
  const slow = rows.filter((r) => r.ratio < 0.95);
  const other = rows.filter((r) => r.cells.some((c) => !c.same));
  if (other.length > 0) process.exitCode = 1;
  out.push(
    "",
    "Prompts below 0.95×: " +
    `${slow.length === 0 ? "none" : slow.map((r) => `${r.p.id} ${r.ratio.toFixed(2)}`).join(", ")}. ` +
    (other.length === 0
      ? "Every output has plain decoding's tokens."
      : `OTHER TOKENS than plain decoding: ${other.map((r) => r.p.id).join(", ")}`),
    "",
  );
  const twice = rows.filter((r) => r.again).sort((a, b) => a.again - b.again);
  if (twice.length > 0) {
    const [first, last] = [twice[0], twice.at(-1)];
    out.push(
      `Plain decoding against itself, by the same rule: ${first.again.toFixed(2)}× (${first.p.id}) to ` +
      `${last.again.toFixed(2)}× (${last.p.id}), ${twice.filter((r) => r.again < 0.95).length} prompts below 0.95×.`,
      "",
    );
  }
  const curves = kept.find({ kind: "costs", pair: name });
  for (const [title, of] of [
    ["T_v by rows", "verify"],
    ["T_d by tokens", "chain"],
  ]) {
    const list = curves.at(-1)?.[of];
    if (!list) continue;
    const medians = list.map(({ n }) => [
      n,
      median(curves.flatMap((c) => c[of].filter((x) => x.n === n).map((x) => x.ms))),
    ]);
    const first = median(curves.map((c) => c.verify[0].ms));
    line(title, ...medians.map(([n]) => n));
    line("---", ...medians.map(() => "---"));
    line("ms", ...medians.map(([, ms]) => ms.toFixed(1)));
    line("of T_v(1)", ...medians.map(([, ms]) => (ms / first).toFixed(2)));
    out.push("");
  }
  return out;
}

// Stamps messages of the worker with the clock that it shares with the page.
const STAMP = `{
  const post = self.postMessage.bind(self);
  const stamped = (message) => ({ ...message, at: performance.timeOrigin + performance.now() });
  self.postMessage = (message, ...rest) => post(message?.type === "update" ? stamped(message) : message, ...rest);
}
`;

/** Measures the milliseconds from the start of a round in the worker to the paint of its text in the page. */
async function screen(browser, server, kept) {
  if (kept.find({ kind: "screen", tokens }).length === 0 && !late()) {
    const { page } = await openPage(
      await browser.newContext({ viewport: { width: 1280, height: 1040 }, serviceWorkers: "block" }),
    );
    await beforeWorker(page, STAMP);
    await page.addInitScript(() => {
      window.stamps = [];
      const Plain = window.Worker;
      window.Worker = class extends Plain {
        constructor(...args) {
          super(...args);
          this.addEventListener("message", ({ data }) => {
            const rounds = data?.at ? data.json.filter((one) => one.startsWith('{"round"')) : [];
            window.stamps.push(...rounds.map(() => data.at)); // those of one frame share a message
          });
        }
      };
    });
    await page.goto(`${server.url}?device=${flags.device}`);
    await waitForState(page, "ready");
    await page.evaluate(() => {
      const widget = document.querySelector("foretoken-widget");
      window.seen = [];
      widget.addEventListener("foretoken-round", ({ detail }) => {
        const round = {
          at: window.stamps.shift(),
          elapsed: detail.elapsed_ms,
          took: detail.ms.draft + detail.ms.verify + detail.ms.host,
        };
        if (!detail.tokens.length) return;
        window.seen.push(round);
        requestAnimationFrame(() => {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = () => (round.painted = performance.timeOrigin + performance.now());
          port2.postMessage(0); // arrives after the paint of this frame
        });
      });
    });
    for (let i = 0; i < 3; i++) {
      await page.evaluate(() => (window.seen.length = 0));
      await page.click("#generate");
      await waitForState(page, "generating");
      await waitForState(page, "ready");
      await page.waitForFunction(() => window.seen.every((r) => r.painted));
    }
    // The program's clock starts with the request; the event with the least delay shows when that was.
    const seen = await page.evaluate(() => window.seen);
    const begin = Math.min(...seen.map((r) => r.at - r.elapsed));
    const all = seen.map((r) => r.painted - (begin + r.elapsed - r.took));
    await kept.add({
      kind: "screen",
      tokens,
      median: median(all),
      slowest: Math.max(...all),
      round: median(seen.map((r) => r.took)),
      rounds: all.length,
    });
    await page.context().close();
  }
  const [s] = kept.find({ kind: "screen", tokens });
  return s
    ? [
        `From the start of a round to its text on the screen: ${s.median.toFixed(1)} ms (median of ${s.rounds} ` +
        `rounds of the built-in pair, \`auto\`; slowest ${s.slowest.toFixed(1)}), of which the round takes ` +
        `${s.round.toFixed(1)} ms; the rest is the wait for rounds of the same frame, the message to the page ` +
        "and the next frame.",
        "",
      ]
    : [];
}

const LENGTHS = [256, 4096];
const LONG = ["x26m-q8_0", "x26m-q4_0"].flatMap((target) => ["f32", "f16", "q8"].map((kv) => ({ target, kv })));

/**
 * Times the target's passes of 1 and 16 rows after each of LENGTHS, in turn. Prefill takes most of the time. Copies of
 * the models say that they were trained for as much: passes take as long, and the text is not read.
 */
async function long(browser, _, kept) {
  const context = LENGTHS.at(-1) + 64;
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-long-"));
  for (const name of new Set(LONG.map(({ target }) => `${target}.gguf`)))
    await fs.writeFile(path.join(folder, name), trainedFor(await fs.readFile(path.join(MODELS, name)), context));
  const server = await startServer(folder);
  try {
    await timeLong(browser, server, kept, context);
  } finally {
    await server.stop();
    await fs.rm(folder, { recursive: true });
  }
  return reportLong(kept);
}

async function timeLong(browser, server, kept, context) {
  for (const { target, kv } of LONG) {
    if (late() || kept.find({ kind: "long", target, kv }).length > 0) continue;
    const { page } = await openPage(await browser.newContext());
    await page.goto(
      `${server.url}bench.html?target=models/${target}.gguf&kv=${kv}` +
      `&context=${context}&device-timeout=600&device=${flags.device}`,
    );
    const info = await page.evaluate(() => window.engine.load());
    const costs = await page.evaluate((of) => window.engine.costs(of), {
      rows: [1, 16],
      length: LENGTHS.at(-1),
      shorter: LENGTHS.slice(0, -1),
      repeat: 9,
    });
    const took = [...costs.after, { length: costs.length, verify: costs.verify }];
    await kept.add({ kind: "long", target, kv, adapter: info.device.adapter, took });
    await page.context().close();
    const after = took.map(
      ({ length, verify }) => `after ${length} ${verify.map(({ n, ms }) => `T(${n}) ${ms.toFixed(1)} ms`).join(", ")}`,
    );
    process.stderr.write(`${target}, ${kv}: ${after.join("; ")}\n`);
  }
}

function reportLong(kept) {
  const all = kept.find({ kind: "long" });
  if (all.length === 0) return [];
  const of = ({ took }) => took.flatMap(({ verify }) => verify.map(({ ms }) => ms.toFixed(1)));
  const kept1 = ({ took }) => (took[0].verify[0].ms / took.at(-1).verify[0].ms).toFixed(2);
  const head = [
    "model",
    "keys and values",
    ...all[0].took.flatMap(({ length, verify }) => verify.map(({ n }) => `T(${n}) after ${length}, ms`)),
    "rate kept",
  ];
  const rows = [head, head.map(() => "---"), ...all.map((line) => [line.target, line.kv, ...of(line), kept1(line)])];
  return ["### Long contexts", "", ...rows.map((cells) => `| ${cells.join(" | ")} |`), ""];
}

/** Measurements other than pairs. */
const OTHERS = { screen, long };

const wanted = flags.pairs.split(",");
for (const name of wanted)
  if (!OTHERS[name] && !PAIRS[name])
    throw new Error(`--pairs: ${name} is not one of ${Object.keys({ ...PAIRS, ...OTHERS }).join(", ")}`);
const kept = await Kept.open(flags.keep);
const server = await startServer(MODELS);
const browser = await startBrowser(flags.device === "webgpu", [], flags.adapter);
const out = [];
try {
  for (const name of wanted)
    out.push(
      ...(OTHERS[name]
        ? await OTHERS[name](browser, server, kept)
        : report(kept, name, await measure(browser, server, name, kept))),
    );
  const version = browser.version();
  const [costs] = [...kept.find({ kind: "costs" }), ...kept.find({ kind: "long" })];
  console.log(
    [
      "",
      `Chromium ${version}, ${costs?.adapter ?? "unknown adapter"}; ${os.cpus().length} × ${os.cpus()[0].model}; ` +
      `${new Date().toISOString().slice(0, 10)}.`,
      "",
      ...out,
    ].join("\n"),
  );
  if (late()) console.log("Not finished: the same command continues from here.");
  const note = `${tokens} tokens a prompt, greedy, medians of ${repeat} interleaved repetitions`;
  const found = { chromium: version, adapter: costs?.adapter, note, pairs: summaries };
  if (flags.json) await fs.writeFile(flags.json, JSON.stringify(found));
} finally {
  await browser.close();
  await server.stop();
}
