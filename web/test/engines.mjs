/**
 * The site in Chromium, Firefox and WebKit on the cpu device: the tokens and log-probabilities of one request are the
 * same in all of them, and the page generates, stops, chats and reloads.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { BROWSERS } from "./drivers.mjs";
import { startFaults } from "./faults.mjs";
import { startHost } from "./host.mjs";
import { brokenModels, dist, limit, notRun, TIMEOUT, root, startServer } from "./site.mjs";

const CORES = Math.min(os.availableParallelism(), 8);
const WIDGET = 'policy="eagle2" depth="3" top-k="3" nodes="8" temperature="0.8" seed="7" max-tokens="8"';
const PROMPT = "func main() {";
const query = new URLSearchParams([
  ["prompt", PROMPT],
  ...WIDGET.split(" ").map((pair) => pair.replaceAll('"', "").split("=")),
]);

let models, server, host, faults, chromium, expected;

before(async () => {
  models = await brokenModels();
  server = await startServer(models);
  const head = '<!doctype html><title>a page</title><script type="module" src="/foretoken/widget.js"></script>';
  host = await startHost({
    pages: { "/": `${head}<foretoken-widget ${WIDGET} prompt="${PROMPT}"></foretoken-widget>` },
    folders: { "/foretoken/": dist },
  });
  faults = await startFaults();
  for (const name of ["target", "draft"])
    faults.files.set(`/${name}.gguf`, { path: path.join(root, "models", "demo", `${name}-q8_0.gguf`) });
  chromium = await BROWSERS.chromium.start();
  await ready(chromium, "?device=cpu");
  expected = await chromium.run(DECODE);
});

after(async () => {
  await chromium?.stop();
  await faults?.stop();
  await host?.stop();
  await server?.stop();
  if (models) await fs.rm(models, { recursive: true });
});

/** Waits until the widget is in one of the states `given`, and returns the state and the lines of the page. */
const STATE = `
  const widget = document.querySelector("foretoken-widget");
  const end = Date.now() + given.patience;
  while (!given.states.includes(widget.dataset.state)) {
    if (Date.now() > end) throw new Error("the widget is still " + widget.dataset.state);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const text = (id) => widget.shadowRoot.getElementById(id)?.textContent ?? "";
  return { state: widget.dataset.state, device: text("device-line"), runsOn: text("runs-on"), error: text("error") };`;

const state = (browser, ...states) => browser.run(STATE, { states, patience: TIMEOUT });

/** Opens the page and waits until its models are loaded. */
async function ready(browser, address) {
  await browser.go(server.url + address);
  const page = await state(browser, "ready", "failed");
  assert.equal(page.state, "ready", page.error);
  return page;
}

/** Decodes by several methods, greedily and sampled: the ids, and the log-probabilities with all their bits. */
const DECODE = `
  const { engine } = document.querySelector("foretoken-widget");
  const requests = [];
  for (const temperature of [0, 0.8])
    for (const policy of ["none", "eagle2"]) requests.push({ policy, temperature });
  const all = [];
  for (const request of requests) {
    const draft = request.policy === "none" ? {} : { depth: 3, top_k: 3, nodes: 8 };
    const run = engine.generate("func (s *Server) Close() error {", {
      ...request, ...draft, seed: 7, max_tokens: 12, logprobs: true, top_logprobs: 2,
    });
    const tokens = [];
    for await (const round of run)
      for (const { id, logprob } of round.tokens) tokens.push([id, logprob]);
    all.push({ ...request, text: (await run.result).text, tokens });
  }
  return all;`;

/** Clicks Generate and returns the result and the text that the page shows. */
const GENERATE = `
  await customElements.whenDefined("foretoken-widget");
  const widget = document.querySelector("foretoken-widget");
  const shown = (id) => widget.shadowRoot.getElementById(id);
  const done = new Promise((resolve, reject) => {
    widget.addEventListener("foretoken-done", ({ detail }) => resolve(detail), { once: true });
    widget.addEventListener("foretoken-error", ({ detail }) => reject(detail), { once: true });
    if (given.stop)
      widget.addEventListener("foretoken-round", () => shown("stop").click(), { once: true });
  });
  if (given.message !== undefined) {
    while (!shown("message")) await new Promise((resolve) => setTimeout(resolve, 20)); // the chat's code loads later
    shown("origins").click(); // the text as the model wrote it, in place of rendered Markdown
    shown("message").value = given.message;
    shown("send").click();
  } else (shown("generate") ?? widget.shadowRoot.querySelector("button")).click();
  const { text, finish, token_ids } = await done;
  const output = shown(given.message === undefined ? "output" : "transcript").textContent;
  return { text, finish, tokens: [...token_ids], output };`;

/** Runs the recording's text on the first screen, and returns what is replayed. */
const STAGE = `
  const until = async (condition) => {
    for (const end = Date.now() + given.patience; !condition() && Date.now() < end; )
      await new Promise((resolve) => setTimeout(resolve, 20));
  };
  const player = document.querySelector("foretoken-tree");
  await until(() => player.trace);
  const { prompt } = player.trace;
  document.getElementById("run-here").click();
  await until(() => /^Written here/.test(document.getElementById("live").textContent));
  await until(() => player.playing);
  await until(() => player.shadowRoot.querySelector(".flight"));
  return [player.trace.prompt === prompt, player.trace.rounds.length > 0, player.playing];`;

const generate = (browser, given = {}) => browser.run(GENERATE, given);

/** Decodes in bench.html, whose script WebKit may still be loading. */
const BENCH = `
  const end = Date.now() + given.patience;
  while (!window.engine && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20));
  return (await window.engine.generate("func main() {", { max_tokens: 4 })).text;`;

/** The whole of a page's life in one browser; `threads` is what the browser gives an isolated page. */
async function lives(t, browser, threads) {
  t.diagnostic(`version ${browser.version}`);
  const counted = (n) => (n === 1 ? "1 thread" : `${n} threads`);
  const line = (n) => new RegExp(`^CPU · ${counted(n)} · `);

  const page = await ready(browser, `?${query}#run`);
  assert.match(page.device, line(threads));
  assert.equal(page.runsOn, `No GPU found: running on ${counted(threads).replace(" ", " CPU ")}`);
  const whole = await generate(browser);
  assert.deepEqual([whole.finish, whole.tokens.length], ["length", 8]);
  assert.ok(whole.output.endsWith(whole.text), whole.output);
  assert.deepEqual(await browser.run(DECODE), expected, "tokens and log-probabilities as in Chromium");

  await ready(browser, `?${query}&max-tokens=400#run`.replace("max-tokens=8&", ""));
  const stopped = await generate(browser, { stop: true });
  assert.equal(stopped.finish, "aborted");
  assert.ok(stopped.tokens.length > 0 && stopped.tokens.length < 400, `${stopped.tokens.length} tokens`);
  await state(browser, "ready");

  await ready(browser, `?${query}`);
  assert.deepEqual(await browser.run(STAGE, { patience: TIMEOUT }), [true, true, true], "the first screen");

  await ready(browser, `?${query}&target=models/talking.gguf&draft=models/demo/draft-q8_0.gguf`);
  const answer = await generate(browser, { message: "Close closes the file." });
  assert.ok(answer.output.includes("Close closes the file.") && answer.output.includes(answer.text), answer.output);
  await browser.run(`
    const total = document.querySelector("foretoken-widget").shadowRoot.getElementById("conversations-total");
    for (const end = Date.now() + given.patience; !total.textContent.startsWith("1 "); )
      if (Date.now() > end) throw new Error("the conversation is not kept: " + total.textContent);
      else await new Promise((resolve) => setTimeout(resolve, 20));`, { patience: TIMEOUT });

  // Models of another origin are kept in the origin's private file system, where the browser has one.
  const kept = await browser.run(`return typeof navigator.storage?.getDirectory === "function"`);
  const address = `bench.html?device=cpu&target=${faults.url}/target.gguf&draft=${faults.url}/draft.gguf`;
  const texts = [];
  for (const again of [false, true]) {
    faults.requests.length = 0;
    await browser.go(server.url + address);
    texts.push(await browser.run(BENCH, { patience: TIMEOUT }));
    const asked = faults.requests.filter(({ range }) => range !== "bytes=0-0"); // whether the file has changed
    assert.equal(asked.length === 0, again && kept, `requests: ${JSON.stringify(faults.requests)}`);
  }
  assert.equal(texts[1], texts[0]);
  t.diagnostic(kept ? "the second visit reads the kept models" : "no private file system: each visit downloads");

  await browser.go(host.url);
  const there = await generate(browser);
  assert.equal(there.text, whole.text, "the widget in a page without isolation");
  assert.match((await state(browser, "ready")).device, line(1));
}

test("Firefox", limit, async (t) => {
  const missing = BROWSERS.firefox.missing();
  if (missing) return notRun(t, missing);
  const browser = await BROWSERS.firefox.start();
  try {
    await lives(t, browser, CORES);
  } finally {
    await browser.stop();
  }
});

test("WebKit", limit, async (t) => {
  const missing = BROWSERS.webkit.missing();
  if (missing) return notRun(t, missing);
  const browser = await BROWSERS.webkit.start();
  try {
    await lives(t, browser, 1); // WebKitGTK lets no page send shared memory to a worker
  } finally {
    await browser.stop();
  }
});

test("WebKit with shared memory, which Safari has: threads compute the same", limit, async (t) => {
  const missing = BROWSERS.webkit.missing();
  if (missing) return notRun(t, missing);
  const browser = await BROWSERS.webkit.start({ JSC_useSharedArrayBuffer: "1" });
  try {
    const { device } = await ready(browser, "?device=cpu");
    assert.match(device, /^CPU · [2-8] threads · /);
    assert.deepEqual(await browser.run(DECODE), expected);
  } finally {
    await browser.stop();
  }
});
