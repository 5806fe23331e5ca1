/**
 * The site in Chromium, end to end: the page as a person uses it, models that
 * cannot be loaded, a browser without WebGPU, and the exactness of speculation
 * over prompts. FORETOKEN_FULL=1 runs all prompts; FORETOKEN_SCREENSHOTS=1
 * writes docs/screenshot-*.png (or into the folder it names).
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { brokenModels, dist, mean, openPage, root, startBrowser, startServer, waitForState } from "./site.mjs";

const full = process.env.FORETOKEN_FULL === "1";
const pictures = process.env.FORETOKEN_SCREENSHOTS === "1" ? path.join(root, "docs") : process.env.FORETOKEN_SCREENSHOTS;
const shared = process.env.FORETOKEN_SHARED || path.join(root, "..", "shared");

let models, server, browser, context;
const records = [];
const minutes = 60_000;

before(async () => {
  models = await brokenModels();
  server = await startServer(models);
  browser = await startBrowser(true);
  context = await newContext(browser);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  if (models) await fs.rm(models, { recursive: true });
});

function newContext(of) {
  return of.newContext({ viewport: { width: 1280, height: 1040 }, colorScheme: "light" });
}

async function open(of, address) {
  const opened = await openPage(of);
  records.push(opened.record);
  await opened.page.goto(server.url + address);
  return opened.page;
}

async function screenshot(page, name) {
  if (pictures) await page.screenshot({ path: path.join(pictures, `screenshot-${name}.png`), fullPage: true });
}

const text = (page, selector) => page.locator(selector).innerText();
const number = async (page, selector) => Number.parseFloat(await text(page, selector));

/** Keeps the widget's events on the page, and how long its main thread was away. */
function listen(page) {
  return page.evaluate(() => {
    const widget = document.querySelector("foretoken-widget");
    const seen = (window.seen = { rounds: [], results: [], compared: [], shift: 0, longest: 0 });
    widget.addEventListener("foretoken-round", (e) => seen.rounds.push(e.detail));
    widget.addEventListener("foretoken-done", (e) => seen.results.push(e.detail));
    widget.addEventListener("foretoken-compared", (e) => seen.compared.push(e.detail));
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) seen.shift += entry.value;
    }).observe({ type: "layout-shift" });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.longest = Math.max(seen.longest, entry.duration);
    }).observe({ type: "longtask" });
  });
}

test("the page loads, streams, counts, compares and stops", { timeout: 5 * minutes }, async (t) => {
  const cold = Date.now();
  const page = await open(context, "");
  await page.waitForFunction(() => /of/.test(document.querySelector("foretoken-widget")?.shadowRoot.querySelector("#status")?.textContent ?? ""), undefined, { timeout: 60_000 });
  await screenshot(page, "loading");
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
  const ready = Date.now() - cold;
  await listen(page);
  assert.match(await text(page, "#device-line"), /^WebGPU · /);
  assert.match(await text(page, "#model-line"), /^Target .*; draft /);
  assert.ok(await page.locator("#notice").isHidden());

  await page.click("#generate");
  await page.waitForFunction(() => window.seen.rounds.length > 0, undefined, { polling: 10 });
  t.diagnostic(`cold page: ready after ${ready} ms, first tokens after ${Date.now() - cold} ms (SwiftShader, kernels compiled and timed)`);
  await page.waitForFunction(() => window.seen.rounds.length > 5, undefined, { polling: 10 });
  assert.equal(await page.locator("#generate").isDisabled(), true);
  await screenshot(page, "streaming");
  assert.equal(await waitForState(page, "ready"), "ready");

  const seen = await page.evaluate(() => window.seen);
  const result = seen.results.at(-1);
  assert.equal(seen.rounds.map((r) => r.text).join(""), result.text, "the rounds add up to the text");
  assert.equal(result.token_ids.length, 64);
  const prompt = await page.locator("#prompt").inputValue();
  const shown = await page.locator("#output").evaluate((box) => box.textContent);
  assert.equal(shown, prompt + result.text, "the page shows the prompt and the text");
  let counted = 0;
  for (const kind of ["accepted", "corrected", "bonus", "plain"]) counted += await number(page, `#count-${kind}`);
  assert.equal(counted, 64, "every token is counted by its kind");
  assert.ok((await page.locator(".output .token.accepted").count()) > 0, "accepted tokens are marked");
  assert.ok((await number(page, "#stat-length")) > 1, "speculation commits more than one token a pass");
  assert.ok((await number(page, "#stat-speed")) > 0 && (await number(page, "#stat-ttft")) > 0);
  assert.equal(await number(page, "#stat-calls"), result.stats.calls);
  assert.equal(await number(page, "#stat-verified"), result.stats.tokens_verified);
  for (const part of ["draft", "verify", "readback", "host"]) assert.ok((await number(page, `#ms-${part}`)) >= 0, part);
  assert.ok(await page.locator(".plot canvas").evaluate((c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((x) => x > 0)), "the chart is drawn");
  assert.ok((await page.locator(".tree .node").count()) > 0, "the last tree is drawn");
  assert.ok(seen.shift < 0.05, `the layout shifted by ${seen.shift} while streaming`);
  t.diagnostic(`main thread: longest task while streaming ${Math.round(seen.longest)} ms; layout shift ${seen.shift.toFixed(4)}`);

  await page.click("#compare");
  await page.waitForFunction(() => window.seen.compared.length > 0, undefined, { timeout: 120_000 });
  const { ratio, plain, speculative } = await page.evaluate(() => window.seen.compared[0]);
  assert.match(await text(page, ".comparison .tokens"), /^Identical: all 64 tokens/);
  assert.match(await text(page, ".comparison .speed"), /×/);
  t.diagnostic(`Compare: plain ${plain.stats.decode_tok_s.toFixed(1)} tok/s, speculative ${speculative.stats.decode_tok_s.toFixed(1)} tok/s, ratio ${ratio.toFixed(2)}`);
  await screenshot(page, "finished");

  // Speculation off is plain decoding: nothing marked, one token a pass, the same text.
  await page.locator("#speculation").uncheck();
  await page.locator("#prompt").press("Control+Enter");
  await waitForState(page, "generating");
  await waitForState(page, "ready");
  const off = await page.evaluate(() => window.seen.results.at(-1));
  assert.equal(off.text, result.text);
  assert.equal(await number(page, "#stat-length"), 1);
  assert.equal(await page.locator(".output .token:not(.plain)").count(), 0);
  await page.locator("#speculation").check();

  await stopsWithinARound(page);
  await page.close();
});

/** Presses Stop in mid-run and counts the rounds that still arrive. */
async function stopsWithinARound(page) {
  await page.fill("#max_tokens", "200");
  await page.click("#generate");
  await waitForState(page, "generating");
  const late = await page.evaluate(async () => {
    const widget = document.querySelector("foretoken-widget");
    const seen = window.seen;
    const from = seen.rounds.length;
    while (seen.rounds.length < from + 3) await new Promise((resolve) => setTimeout(resolve, 1));
    const at = seen.rounds.filter((r) => r.tokens.length > 0).length;
    const done = new Promise((resolve) => widget.addEventListener("foretoken-done", (e) => resolve(e.detail.finish), { once: true }));
    widget.shadowRoot.querySelector("#stop").click();
    return { finish: await done, rounds: seen.rounds.filter((r) => r.tokens.length > 0).length - at };
  });
  assert.equal(late.finish, "aborted");
  // One round may be running, and one on its way from the worker.
  assert.ok(late.rounds <= 2, `${late.rounds} rounds came after Stop`);
  assert.equal(await waitForState(page, "ready"), "ready");
}

test("a model that cannot be loaded is named in one line, and the page goes on", { timeout: 4 * minutes }, async (t) => {
  const page = await open(context, "?target=models/magic.gguf&max-tokens=8");
  const cases = [
    ["models/magic.gguf", "", /magic\.gguf.*magic/i],
    ["models/truncated.gguf", "", /truncated\.gguf.*(truncated|beyond|past|ends|bytes)/i],
    ["models/header-only.gguf", "", /header-only\.gguf/],
    ["models/demo/target-q8_0.gguf", "models/mismatched.gguf", /mismatched\.gguf.*target-q8_0\.gguf.*token/i],
    ["models/none.gguf", "", /none\.gguf: download: the server answered 404/],
    ["index.html", "", /index\.html: content-type: .*HTML/],
  ];
  for (const [target, draft, wanted] of cases) {
    await page.evaluate(
      ([target, draft]) => {
        const widget = document.querySelector("foretoken-widget");
        widget.setAttribute("target", target);
        if (draft) widget.setAttribute("draft", draft);
        else widget.removeAttribute("draft");
        void widget.load().catch(() => undefined);
      },
      [target, draft],
    );
    assert.equal(await waitForState(page, ["ready", "failed"]), "failed", `${target} ${draft}`);
    const message = await text(page, "#error");
    assert.match(message, wanted);
    assert.ok(!message.includes("\n"), `one line: ${message}`);
    t.diagnostic(message);
  }
  // A file of one's own goes the same way.
  await page.setInputFiles("#target-file", path.join(models, "magic.gguf"));
  await page.click("#load");
  await waitForState(page, "failed");
  assert.match(await text(page, "#error"), /magic\.gguf.*magic/i);

  await page.setInputFiles("#target-file", path.join(root, "models", "demo", "target-q8_0.gguf"));
  await page.setInputFiles("#draft-file", path.join(root, "models", "demo", "draft-q8_0.gguf"));
  await page.click("#load");
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
  assert.ok(await page.locator("#error").isHidden(), "the error is gone");
  await listen(page);
  await page.click("#generate");
  await page.waitForFunction(() => window.seen.results.length === 1, undefined, { timeout: 60_000 });
  assert.equal(await page.evaluate(() => window.seen.results[0].token_ids.length), 8);
  // The failed downloads of this test are the only complaints a console may hold.
  const record = records.at(-1);
  record.errors = record.errors.filter((error) => !/none\.gguf/.test(error));
  await page.close();
});

test("without WebGPU the page says so and decodes on the CPU", { timeout: 3 * minutes }, async () => {
  const without = await startBrowser(false);
  try {
    const page = await open(await newContext(without), "?max-tokens=24");
    assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
    await listen(page);
    assert.match(await text(page, "#notice"), /^WebGPU is not available here.*on the CPU/);
    assert.match(await text(page, "#device-line"), /^CPU · /);
    await page.click("#generate");
    await page.waitForFunction(() => window.seen.results.length === 1, undefined, { timeout: 120_000 });
    assert.equal(await page.evaluate(() => window.seen.results[0].token_ids.length), 24);
    await screenshot(page, "no-webgpu");
    await stopsWithinARound(page);
  } finally {
    await without.close();
  }
});

test("the widget loads nothing until it is used", { timeout: 2 * minutes }, async () => {
  const page = await open(context, "bench.html");
  await page.evaluate(async () => {
    await import("./foretoken.js");
    const widget = document.createElement("foretoken-widget");
    for (const [name, value] of Object.entries({ compact: "", device: "cpu", "max-tokens": "8", prompt: "func main() {\n" })) widget.setAttribute(name, value);
    document.body.append(widget);
  });
  await page.waitForTimeout(300);
  const heavy = () => records.at(-1).requests.filter((url) => /\.(wasm|gguf)$/.test(url));
  assert.deepEqual(heavy(), []);
  const result = await page.evaluate(() => document.querySelector("foretoken-widget").generate());
  assert.equal(result.token_ids.length, 8);
  assert.ok(heavy().some((url) => url.endsWith("foretoken.wasm")));
  await page.close();
});

test("speculation gives exactly the tokens of plain decoding, and what it costs", { timeout: (full ? 60 : 12) * minutes }, async (t) => {
  const file = path.join(shared, "testdata", "prompts-go.jsonl");
  const lines = await fs.readFile(file, "utf8").catch(() => undefined);
  if (lines === undefined) {
    t.skip("testdata/prompts-go.jsonl of the shared folder is not here (FORETOKEN_SHARED names the folder)");
    return;
  }
  const all = lines.trim().split("\n").map((line) => JSON.parse(line));
  const prompts = full ? all : all.filter((_, i) => i % Math.ceil(all.length / 16) === 0);
  const page = await open(context, "bench.html?device=webgpu");
  const info = await page.evaluate(() => window.engine.load());
  const generate = (prompt, options) => page.evaluate(([p, o]) => window.engine.generate(p, o), [prompt, { maxTokens: 64, ...options }]);
  // Compile and warm what the first prompt would otherwise be charged for.
  for (const policy of ["none", "chain", "eagle2"]) await generate(prompts[0].prompt, { policy, maxTokens: 8 });

  const modes = { greedy: { temperature: 0, seed: 1 }, "T=0.8": { temperature: 0.8, seed: 7 } };
  const policies = { chain: { policy: "chain", depth: 4 }, eagle2: { policy: "eagle2", depth: 4, topK: 4, nodes: 16 } };
  const ratios = {};
  const lengths = {};
  for (const { id, category, prompt } of prompts) {
    for (const [mode, sampling] of Object.entries(modes)) {
      const plain = await generate(prompt, { ...sampling, policy: "none" });
      assert.equal(plain.stats.acceptance_length, 1);
      for (const [name, policy] of Object.entries(policies)) {
        const got = await generate(prompt, { ...sampling, ...policy });
        assert.deepEqual(got.tokens, plain.tokens, `${id}, ${mode}: ${name} differs from plain decoding`);
        assert.equal(got.text, plain.text, `${id}, ${mode}: ${name}`);
        ((ratios[mode] ??= {})[name] ??= []).push(got.stats.decode_tok_s / plain.stats.decode_tok_s);
        if (name === "eagle2") ((lengths[mode] ??= {})[category] ??= []).push([got.stats.committed, got.stats.calls]);
      }
    }
  }
  t.diagnostic(`${prompts.length} prompts × 64 tokens, greedy and T=0.8, chain and EAGLE-2 tree: identical to plain decoding on ${info.device.adapter}`);
  for (const [mode, byCategory] of Object.entries(lengths)) {
    const length = (pairs) => (pairs.reduce((n, [c]) => n + c, 0) / pairs.reduce((n, [, c]) => n + c, 0)).toFixed(2);
    const parts = Object.entries(byCategory).map(([category, pairs]) => `${category} ${length(pairs)}`);
    t.diagnostic(`acceptance length, bonus included, EAGLE-2 k=4 depth 4 N=16, ${mode}: ${parts.join(", ")}; all ${length(Object.values(byCategory).flat())}`);
  }
  for (const [mode, byPolicy] of Object.entries(ratios)) {
    t.diagnostic(`speed against plain decoding, mean over prompts, ${mode}: ${Object.entries(byPolicy).map(([name, list]) => `${name} ${mean(list).toFixed(2)}×`).join(", ")}`);
  }
  await bestSetting(t, generate, prompts.filter((_, i) => i % Math.ceil(prompts.length / 4) === 0));
  await page.close();
});

/** Looks for the fastest setting over a few prompts, greedy, each against plain decoding just before it. */
async function bestSetting(t, generate, prompts) {
  const settings = [
    { policy: "chain", depth: 1 },
    { policy: "chain", depth: 2 },
    { policy: "chain", depth: 3 },
    { policy: "eagle2", depth: 2, topK: 2, nodes: 4 },
    { policy: "ngram", depth: 3 },
  ];
  const found = settings.map((setting) => ({ setting, ratios: [] }));
  for (const { prompt } of prompts) {
    const plain = await generate(prompt, { policy: "none" });
    for (const { setting, ratios } of found) {
      const got = await generate(prompt, setting);
      assert.deepEqual(got.tokens, plain.tokens, JSON.stringify(setting));
      ratios.push(got.stats.decode_tok_s / plain.stats.decode_tok_s);
    }
  }
  found.sort((a, b) => mean(b.ratios) - mean(a.ratios));
  const name = ({ policy, depth, topK, nodes }) => `${policy} depth ${depth}${nodes ? ` k ${topK} N ${nodes}` : ""}`;
  t.diagnostic(`settings over ${prompts.length} prompts, best first: ${found.map(({ setting, ratios }) => `${name(setting)} ${mean(ratios).toFixed(2)}×`).join(", ")}`);
}

test("nothing was asked of another origin and no console complained", async (t) => {
  const requests = records.flatMap((record) => record.requests);
  assert.ok(requests.length > 10);
  assert.deepEqual(requests.filter((url) => !url.startsWith(server.url) && !/^(blob|data):/.test(url)), []);
  assert.deepEqual(records.flatMap((record) => record.errors), []);
  const sizes = { wasm: 0, javascript: 0 };
  for (const name of await fs.readdir(dist)) {
    if (!name.endsWith(".gz") || !/\.(js|wasm)\.gz$/.test(name)) continue;
    sizes[name.endsWith(".wasm.gz") ? "wasm" : "javascript"] += (await fs.stat(path.join(dist, name))).size;
  }
  if (sizes.wasm === 0) t.diagnostic("sizes: the site was built without compression");
  else {
    t.diagnostic(`sizes, gzipped: foretoken.wasm ${(sizes.wasm / 1e6).toFixed(2)} MB, all JavaScript ${(sizes.javascript / 1e3).toFixed(1)} kB`);
    assert.ok(sizes.wasm <= 3e6, "foretoken.wasm is over 3 MB gzipped");
  }
});
