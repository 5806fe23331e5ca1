/**
 * The site in Chromium, end to end: the page as a user sees it, models that cannot be loaded, a browser without WebGPU,
 * and the exactness of speculation over prompts. FORETOKEN_FULL=1 runs all prompts, each greedy and sampled, on WebGPU
 * too.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { runsBenchmarks } from "./benchmarks.mjs";
import {
  beforeWorker,
  brokenModels,
  dist,
  generated,
  limit,
  openLab,
  openPage,
  openSettings,
  root,
  startBrowser,
  startServer,
  waitForState,
  web,
} from "./site.mjs";

const full = process.env.FORETOKEN_FULL === "1";

let models, server, browser, context;
const records = [];
let initial = []; // the requests of the first page until it was ready

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

/** What the page says of the CPU: as many threads as there are cores, up to eight. */
const DEVICE_LINE = new RegExp(`^CPU · ${Math.min(os.availableParallelism(), 8)} threads? · `);
const text = (page, selector) => page.locator(selector).innerText();
const number = async (page, selector) => Number.parseFloat(await text(page, selector));

/** Records the widget's events, layout shifts and long tasks in the page. */
function listen(page) {
  return page.evaluate(() => {
    const widget = document.querySelector("foretoken-widget");
    const seen = (window.seen = { rounds: [], results: [], compared: [], busy: true, shift: 0, longest: 0 });
    widget.addEventListener("foretoken-round", (e) => {
      seen.rounds.push(e.detail);
      seen.busy &&= widget.shadowRoot.querySelector("#generate").disabled;
    });
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

test("the page loads, streams, counts, compares and stops", limit, async (t) => {
  const cold = Date.now();
  // A method that drafts on every device: the default may not draft on a slow one.
  const page = await open(context, "?policy=eagle2&depth=4&top-k=4&nodes=16");
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
  const ready = Date.now() - cold;
  initial = [...records[0].requests];
  await openLab(page);
  await listen(page);
  assert.match(await text(page, "#device-line"), DEVICE_LINE);
  assert.match(await text(page, "#model-line"), /^Target .*; draft /);
  assert.match(await text(page, "#runs-on"), /^Only a software GPU found: running on \d+ CPU threads?$/);

  await page.fill("#prompt", "func (s *Server) Close() error {"); // no example, whose text ends earlier
  await page.click("#generate");
  await page.waitForFunction(() => window.seen.rounds.length > 0, undefined, { polling: 10 });
  t.diagnostic(
    `cold page: ready after ${ready} ms, first tokens after ${Date.now() - cold} ms`,
  );
  await page.waitForFunction(() => window.seen.results.length === 1);
  assert.equal(await waitForState(page, "ready"), "ready");

  const seen = await page.evaluate(() => window.seen);
  const result = seen.results.at(-1);
  assert.ok(seen.busy, "Generate was enabled during a generation");
  assert.equal(seen.rounds.map((r) => r.text).join(""), result.text, "the rounds add up to the text");
  assert.equal(result.token_ids.length, 64);
  const prompt = await page.locator("#prompt").inputValue();
  const shown = await page.locator("#output").evaluate((box) => box.textContent);
  assert.equal(shown, prompt + result.text, "the page shows the prompt and the text");
  let counted = 0;
  for (const kind of ["accepted", "relaxed", "corrected", "bonus", "plain"])
    counted += await number(page, `#count-${kind}`);
  assert.equal(counted, 64, "every token is counted by its kind");
  assert.ok((await page.locator(".output .token.accepted").count()) > 0, "accepted tokens are marked");
  assert.ok((await number(page, "#stat-length")) > 1, "speculation commits at most one token per pass");
  assert.ok((await number(page, "#stat-speed")) > 0 && (await number(page, "#stat-ttft")) > 0);
  assert.equal(await number(page, "#stat-calls"), result.stats.calls);
  assert.equal(await number(page, "#stat-verified"), result.stats.tokens_verified);
  for (const part of ["draft", "verify", "readback", "host"]) assert.ok((await number(page, `#ms-${part}`)) >= 0, part);
  assert.ok(
    await page
      .locator(".plot canvas")
      .first()
      .evaluate((c) =>
        c
          .getContext("2d")
          .getImageData(0, 0, c.width, c.height)
          .data.some((x) => x > 0),
      ),
    "the chart is drawn",
  );
  await page.locator(".tree .node").first().waitFor({ state: "attached" }); // its code loads with the first round
  assert.ok(seen.shift < 0.05, `the layout shifted by ${seen.shift} while streaming`);
  t.diagnostic(
    `main thread: longest task while streaming ${Math.round(seen.longest)} ms; layout shift ${seen.shift.toFixed(4)}`,
  );

  await page.click("#tab-compare");
  await page.click("#compare-start");
  await page.waitForFunction(() => window.seen.compared.length > 0);
  const { ratio, plain_tok_s, speculative_tok_s, verdict, disturbed } = await page.evaluate(
    () => window.seen.compared[0],
  );
  assert.match(await text(page, "#compare-tokens"), /^Identical: all 64 tokens/);
  const { line } = verdict;
  assert.match(line, /\d\.\d\d to \d\.\d\d.*, the same 64 tokens/);
  assert.equal(await text(page, "#compare-verdict"), `${line}.`);
  if (!disturbed) await page.locator("#compare-costs svg").waitFor();
  await page.click("#tab-run");
  assert.deepEqual([await text(page, "#status"), await text(page, "#gain")], [line, line]);
  t.diagnostic(
    `Compare: plain ${plain_tok_s.toFixed(1)} tok/s, speculative ${speculative_tok_s.toFixed(1)} tok/s, ratio ` +
    ratio.toFixed(2),
  );

  // Without speculation: no marks, one token per pass, the same text.
  await page.locator("#speculation").uncheck();
  const off = await generated(page, () => page.locator("#prompt").press("Control+Enter"));
  assert.equal(off.text, result.text);
  assert.equal(await number(page, "#stat-length"), 1);
  assert.equal(await page.locator(".output .token:not(.plain)").count(), 0);
  await page.locator("#speculation").check();

  await stopsWithinARound(context, "?policy=eagle2&depth=4&top-k=4&nodes=16");
  await page.close();
});

test("methods: settings of their own, exact tokens or a mark, and the benchmark", limit, async (t) => {
  const page = await open(context, "?policy=mars&depth=2&top-k=4&nodes=8&theta=0.4&max-tokens=32");
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
  await listen(page);
  await openSettings(page);
  const shown = (id) => page.locator(`#${id}`).isVisible();

  // The page offers the methods of the program.
  const { built, loaded } = await page.evaluate(async () => ({
    built: [...document.querySelector("foretoken-widget").shadowRoot.querySelectorAll("#policy option")]
      .map((o) => o.value)
      .sort(),
    loaded: (await document.querySelector("foretoken-widget").engine.methods()).methods
      .map((m) => m.name)
      .filter((name) => name !== "none")
      .sort(),
  }));
  assert.deepEqual(built, loaded);
  assert.equal(
    await page.locator("#policy option[value=hetero]").isDisabled(),
    false,
    "the built-in pair has its calibrations",
  );

  // The engine refuses a number beyond its bounds, of its table's and of a method's, and the text stays.
  for (const [field, value, said] of [
    ["temperature", "99", "temperature is 99, want 0 (greedy) or 0.001 to 2"],
    ["depth", "99", "depth is 99, want 0 to 63"],
  ]) {
    const before = await page.locator(`#${field}`).inputValue();
    await page.fill(`#${field}`, value);
    await page.click("#generate");
    await page.locator("#error:visible").waitFor();
    assert.ok((await text(page, "#error")).includes(said), await text(page, "#error"));
    assert.equal(await page.locator(`#${field}`).inputValue(), value);
    await page.fill(`#${field}`, before);
  }

  // The page marks a lossy method before the run, at its text, and in its comparison.
  assert.match(await text(page, "#exactness"), /^lossy$/i);
  assert.deepEqual([await shown("theta"), await shown("variant"), await shown("threshold")], [true, false, false]);
  const compared = await page.evaluate(() => document.querySelector("foretoken-widget").compare({ turns: 1 }));
  assert.equal(compared.exactness, "lossy");
  assert.ok(
    compared.speculative.stats.lossy && compared.speculative.stats.relaxed > 0,
    `a θ of 0.4 relaxed ${compared.speculative.stats.relaxed} tokens`,
  );
  assert.match(compared.verdict.tokens, /^Agreement: \d+ of 32 tokens .* relaxed \d+/);
  assert.ok(await shown("lossy"), "the text is marked");
  assert.ok(
    (await number(page, "#count-relaxed")) > 0 && (await page.locator(".output .token.relaxed").count()) > 0,
    "relaxed tokens have a mark of their own",
  );

  await page.selectOption("#policy", "c2t");
  assert.match(await text(page, "#exactness"), /^exact$/i);
  assert.deepEqual([await shown("theta"), await shown("nodes"), await shown("threshold")], [false, false, true]);
  await page.selectOption("#policy", "sampled");
  assert.match(await text(page, "#exactness"), /^exact in distribution$/i);

  // Adaptive methods give plain decoding's tokens, greedy and sampled.
  const prompt = await page.locator("#prompt").inputValue();
  const generate = (request) =>
    page.evaluate((r) => document.querySelector("foretoken-widget").engine.generate(r.prompt, r).result, {
      prompt,
      max_tokens: 32,
      ...request,
    });
  for (const sampling of [{ temperature: 0 }, { temperature: 0.8, seed: 5 }]) {
    const plain = await generate({ ...sampling, policy: "none" });
    for (const method of [
      { policy: "hetero", depth: 4, top_k: 4, nodes: 16 },
      { policy: "c2t-chain", depth: 4 },
      { policy: "auto" },
    ]) {
      const got = await generate({ ...sampling, ...method });
      assert.deepEqual(got.token_ids, plain.token_ids, `${method.policy} at temperature ${sampling.temperature}`);
      assert.equal(got.text, plain.text);
      assert.equal(got.stats.lossy, false);
      if (method.policy === "hetero")
        assert.ok(
          got.stats.bins?.some((bin) => bin.rounds > 0),
          "rounds fell in entropy bins",
        );
    }
  }
  const refused = await generate({ policy: "eagle2", verifier: "rejection" }).catch((cause) => String(cause));
  assert.match(refused, /top-k/, "an illegal combination is refused with the reason");

  await runsBenchmarks(page, t);
  await page.close();
});

/**
 * Presses Stop in the first round of a run, and counts the rounds that the worker sends after it receives the stop. The
 * worker pauses the run after 10 tokens, so the stop always arrives before the run ends.
 */
async function stopsWithinARound(of, address) {
  const { page, record } = await openPage(of);
  records.push(record);
  const scripts = await Promise.all(
    ["worker-pause.js", "worker-probe.js"].map((name) => fs.readFile(path.join(web, "test", name), "utf8")),
  );
  await beforeWorker(page, scripts.map((script) => `{${script}}\n`).join(""));
  await page.goto(server.url + address);
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
  await openSettings(page);
  await page.fill("#max_tokens", "200");
  const finish = await page.evaluate(async () => {
    const widget = document.querySelector("foretoken-widget");
    const stop = () => widget.shadowRoot.querySelector("#stop").click();
    widget.addEventListener("foretoken-round", stop, { once: true });
    return new Promise((resolve, reject) => {
      widget.addEventListener("foretoken-done", (event) => resolve(event.detail.finish), { once: true });
      widget.addEventListener("foretoken-error", (event) => reject(event.detail), { once: true });
      widget.shadowRoot.querySelector("#generate").click();
    });
  });
  assert.equal(finish, "aborted");
  assert.equal(await waitForState(page, "ready"), "ready");
  // A page whose first worker started slowly has replaced it: the stop went to one of them.
  const engines = page.workers().filter((worker) => worker.url().endsWith("worker.js"));
  const probes = engines.map((worker) => worker.evaluate(() => ({ stops: seen.stops, late: seen.late })));
  const { stops, late } = (await Promise.all(probes)).find((probe) => probe.stops > 0) ?? { stops: 0, late: [] };
  assert.equal(stops, 1, "the worker received the stop");
  assert.ok(late[0] <= 1, `rounds after Stop: ${late}`);
  await page.close();
}

test("a load error names the model in one line, and the page continues", limit, async (t) => {
  const page = await open(context, "?target=models/magic.gguf&max-tokens=8");
  const cases = [
    ["models/magic.gguf", "", /magic\.gguf.*magic/i],
    ["models/truncated.gguf", "", /truncated\.gguf.*(truncated|beyond|past|ends|bytes)/i],
    ["models/header-only.gguf", "", /header-only\.gguf/],
    ["models/demo/target-q8_0.gguf", "models/mismatched.gguf", /mismatched\.gguf.*target-q8_0\.gguf.*token/i],
    ["models/none.gguf", "", /none\.gguf: download: the server answered 404/],
    ["index.html", "", /index\.html cannot be used: the server sent an HTML/],
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
  // Local files behave the same way.
  await openSettings(page);
  await page.click("#own-models > summary");
  await page.click("#models-files");
  await page.setInputFiles("#target-file", path.join(models, "magic.gguf"));
  await page.click("#load");
  await waitForState(page, "failed");
  for (const place of ["#error", "#target-file-error"]) assert.match(await text(page, place), /magic\.gguf.*magic/i);
  assert.equal(await page.getAttribute("#target-file", "aria-invalid"), "true");

  await page.setInputFiles("#target-file", path.join(root, "models", "demo", "target-q8_0.gguf"));
  await page.setInputFiles("#draft-file", path.join(root, "models", "demo", "draft-q8_0.gguf"));
  // Local calibrations: those of the pair fit, and enable their methods.
  await page.setInputFiles(
    "#calibration-files",
    ["calibration.json", "c2t.json"].map((name) => path.join(root, "models", "demo", name)),
  );
  await page.click("#load");
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
  assert.ok(await page.locator("#error").isHidden(), "the error is still shown");
  const possible = (policy) => page.locator(`#policy option[value=${policy}]`).isEnabled();
  assert.deepEqual(
    [await possible("hetero"), await possible("c2t"), await possible("acceptance"), await possible("eagle3")],
    [true, true, false, false],
  );
  await listen(page);
  await page.click("#generate");
  await page.waitForFunction(() => window.seen.results.length === 1);
  assert.equal(await page.evaluate(() => window.seen.results[0].token_ids.length), 8);
  // The built-in pair with its EAGLE-3 head: drafting from the target's features is exact too.
  await page.click("#models-catalog");
  await page.check("#pairs [value=builtin-eagle3]");
  await page.click("#load");
  await page.locator("#policy option[value=eagle3]:not(:disabled)").waitFor({ state: "attached" });
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
  await page.fill("#prompt", "func (s *Server) Close() error {");
  for (const [i, policy] of ["chain", "eagle3"].entries()) {
    await page.locator("#policy").evaluate((select, value) => {
      select.value = value;
      select.dispatchEvent(new Event("change", { bubbles: true }));
    }, policy);
    await page.click("#generate");
    await page.waitForFunction((n) => window.seen.results.length === n, i + 2);
  }
  const [chain, drafted] = await page.evaluate(() => window.seen.results.slice(1));
  assert.deepEqual(drafted.token_ids, chain.token_ids);
  t.diagnostic(`EAGLE-3 head: ${drafted.stats.acceptance_length.toFixed(2)} tokens a pass`);
  assert.ok(drafted.stats.acceptance_length > 1.5);
  // The console may show only the failed downloads of this test.
  const record = records.at(-1);
  record.errors = record.errors.filter((error) => !/none\.gguf/.test(error));
  await page.close();
});

test("without a GPU the page says so and decodes on the CPU", limit, async () => {
  const without = await startBrowser(false);
  try {
    const page = await open(await newContext(without), "?max-tokens=24");
    assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
    await listen(page);
    assert.match(await text(page, "#runs-on"), /^No GPU found: running on \d+ CPU threads?$/);
    assert.match(await text(page, "#device-line"), DEVICE_LINE);
    await page.click("#generate");
    await page.waitForFunction(() => window.seen.results.length === 1);
    assert.equal(await page.evaluate(() => window.seen.results[0].token_ids.length), 24);
    await stopsWithinARound(page.context(), "");
  } finally {
    await without.close();
  }
});

test("a conversation: answers, regeneration, edits, and a completion next to it", limit, async (t) => {
  const page = await open(
    context,
    "?target=models/talking.gguf&draft=models/demo/draft-q8_0.gguf&device=cpu&policy=chain&depth=3&max-tokens=6",
  );
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
  await listen(page);
  await page.waitForSelector("#tab-chat[aria-selected=true]"); // a model with a template starts in chat
  assert.deepEqual(
    [
      await page.locator("#send").isVisible(),
      await page.locator("#generate").isVisible(),
      await page.locator("#prompt").isVisible(),
    ],
    [true, false, false],
  );
  // Prompts that fit the model took the place of the built-in pair's.
  assert.match(await page.locator("#prompt").inputValue(), /^Question: .*\nAnswer:$/);
  assert.equal(await text(page, "#transcript .chip:first-child"), "Why is the sky blue?");
  const results = () => page.evaluate(() => window.seen.results);
  const answered = async (n) => {
    await page.waitForFunction((n) => window.seen.results.length === n, n);
    await waitForState(page, "ready");
    return (await results()).at(-1);
  };
  const shown = (selector) =>
    page.locator(`#transcript ${selector}`).evaluateAll((all) => all.map((e) => e.textContent));

  await page.click("#origins"); // the text as the model wrote it, in place of rendered Markdown
  await page.fill("#message", "Close closes the file.");
  await page.keyboard.press("Enter");
  const first = await answered(1);
  assert.deepEqual(await shown(".message-text"), ["Close closes the file.", first.text]);
  assert.ok(
    (await page.locator("#transcript .message.assistant .token").count()) > 0,
    "tokens of an answer are marked",
  );
  assert.equal(await page.locator("#transcript").getAttribute("aria-busy"), "false");
  assert.ok(await page.locator("#message:focus").count(), "the next message can be typed");
  assert.equal(await page.locator("#message").inputValue(), "");

  await page.fill("#message", "<b>Open</b> opens it.");
  await page.click("#send");
  const second = await answered(2);
  assert.ok(
    second.stats.reused >= first.stats.prompt_tokens,
    `${second.stats.reused} of ${second.stats.prompt_tokens} tokens reused`,
  );
  assert.match(await text(page, "#status"), /prompt tokens reused/);
  t.diagnostic(`second answer: ${second.stats.reused} of ${second.stats.prompt_tokens} prompt tokens reused`);

  await page.click("#transcript .again");
  const again = await answered(3);
  assert.deepEqual(
    [again.text, again.stats.reused],
    [second.text, again.stats.prompt_tokens - 1],
    "a greedy answer repeats, from the KV cache",
  );

  // At the width of a phone the page does not overflow.
  await page.setViewportSize({ width: 390, height: 844 });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
  await page.setViewportSize({ width: 1280, height: 1040 });

  await page.locator("#transcript .edit").first().click();
  await page.locator("#transcript .message-editor textarea").fill("Open opens the file.");
  await page.keyboard.press("Enter");
  const edited = await answered(4);
  assert.deepEqual(await shown(".message-text"), ["Open opens the file.", edited.text]);

  await page.click("#tab-run");
  await page.fill("#prompt", "func main() {");
  await page.click("#generate");
  assert.equal((await answered(5)).token_ids.length, 6);
  await page.click("#tab-chat");
  assert.deepEqual(
    await shown(".message-text"),
    ["Open opens the file.", edited.text],
    "the conversation is still there",
  );
  await page.click("#new-chat");
  assert.equal(await page.locator("#transcript .message").count(), 0);
  await page.close();
});

test("the widget loads nothing until it is used", limit, async () => {
  const page = await open(context, "bench.html");
  await page.evaluate(async () => {
    await import("./foretoken.js");
    const widget = document.createElement("foretoken-widget");
    for (const [name, value] of Object.entries({
      device: "cpu",
      "max-tokens": "8",
      prompt: "func main() {\n",
    }))
      widget.setAttribute(name, value);
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

// api.mjs compares completions on WebGPU each time.
for (const device of full ? ["cpu", "webgpu"] : ["cpu"])
  test(`on ${device} speculation gives exactly the tokens of plain decoding`, limit, async (t) => {
    const lines = (await fs.readFile(path.join(root, "testdata", "prompts-go.jsonl"), "utf8")).trim().split("\n");
    const prompts = lines.map((line) => JSON.parse(line)).filter((_, i) => full || i % 20 === 0);
    const page = await open(context, `bench.html?device=${device}`);
    const info = await page.evaluate(() => window.engine.load());
    const generate = (prompt, options) =>
      page.evaluate(([p, o]) => window.engine.generate(p, o), [prompt, { maxTokens: 64, ...options }]);
    const modes = [
      { temperature: 0, seed: 1 },
      { temperature: 0.8, seed: 7 },
    ];
    const policies = [
      { policy: "chain", depth: 4 },
      { policy: "eagle2", depth: 4, topK: 4, nodes: 16 },
    ];
    for (const [i, { id, prompt }] of prompts.entries())
      for (const mode of full ? modes : [modes[i % 2]]) {
        const plain = await generate(prompt, { ...mode, policy: "none" });
        assert.equal(plain.stats.acceptance_length, 1);
        for (const policy of policies) {
          const got = await generate(prompt, { ...mode, ...policy });
          assert.deepEqual(got.tokens, plain.tokens, `${id}, T=${mode.temperature}: ${policy.policy}`);
          assert.equal(got.text, plain.text, `${id}, T=${mode.temperature}: ${policy.policy}`);
        }
      }
    t.diagnostic(`${prompts.length} prompts × 64 tokens on ${info.device.adapter}`);
    await page.close();
  });

test("no requests to other origins and no errors in a console", async (t) => {
  const requests = records.flatMap((record) => record.requests);
  assert.ok(requests.length > 10);
  assert.deepEqual(
    requests.filter((url) => !url.startsWith(server.url) && !/^(blob|data):/.test(url)),
    [],
  );
  assert.deepEqual(
    records.flatMap((record) => record.errors),
    [],
  );
  const gzipped = async (name) => (await fs.stat(path.join(dist, `${name}.gz`)).catch(() => ({ size: 0 }))).size;
  const wasm = await gzipped("foretoken.wasm");
  if (wasm === 0) {
    t.diagnostic("sizes: the site was built without compression");
    return;
  }
  // The first page's requests until it was ready; imports of workers are not always recorded.
  const scripts = new Set([
    "wasm_exec.js",
    "worker.js",
    ...initial.filter((url) => url.endsWith(".js")).map((url) => path.basename(url)),
  ]);
  let javascript = 0;
  for (const name of scripts) javascript += await gzipped(name);
  t.diagnostic(
    `sizes, gzipped: foretoken.wasm ${(wasm / 1e6).toFixed(2)} MB, the page's JavaScript ` +
    `${(javascript / 1e3).toFixed(1)} kB in ${scripts.size} files`,
  );
  assert.ok(javascript <= 84.5e3, "the page's JavaScript is over 84.5 kB gzipped");
});
