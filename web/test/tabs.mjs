/** Background tabs, blocked pages, two tabs at once, and terminated workers. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, limit, openPage, startBrowser } from "./site.mjs";

const prompt = 'package main\n\nimport "fmt"\n\nfunc main() {\n';
let host, base, browser;

before(async () => {
  host = await startHost({
    pages: { "/app/": "<!doctype html><title>a page with an engine</title>" },
    folders: { "/app/foretoken/": dist },
  });
  base = `${host.url}app/`;
  browser = await startBrowser(true);
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

/** Opens a page with the built-in pair; `worker` and `engine` are globals of the page. */
async function openTab(context) {
  const { page, record } = await openPage(context);
  await page.goto(base);
  await page.evaluate(load);
  return { page, errors: record.errors };
}

async function load() {
  const { Foretoken } = await import("./foretoken/foretoken.js");
  const start = () => (window.worker = new Worker("./foretoken/worker.js", { type: "module" }));
  window.engine = await Foretoken.load({ worker: start });
  return window.engine.info.device.backend;
}

const generate = (page, more = {}) =>
  page.evaluate(
    async ([prompt, more]) =>
      (await window.engine.generate(prompt, { max_tokens: 100, seed: 3, ...more }).result).token_ids,
    [prompt, more],
  );

/** Starts a generation and returns during it; `finish` returns the result's tokens and the rounds' tokens. */
async function begin(page, more = {}) {
  await page.evaluate(
    async ([prompt, more]) => {
      window.told = [];
      const run = window.engine.generate(prompt, { max_tokens: 100, seed: 3, ...more });
      await new Promise((resolve, reject) => {
        window.ended = (async () => {
          for await (const round of run) {
            window.told.push(...round.tokens.map((token) => token.id));
            if (window.told.length >= 10) resolve();
          }
          return (await run.result).token_ids;
        })();
        window.ended.catch(reject);
      });
    },
    [prompt, more],
  );
  return { finish: () => page.evaluate(async () => ({ all: await window.ended, told: window.told })) };
}

test(
  "a generation continues in a background tab and while its page is blocked, with the complete text",
  limit,
  async (t) => {
    const context = await browser.newContext();
    const { page, errors } = await openTab(context);
    const cdp = await context.newCDPSession(page);
    const request = { policy: "chain", temperature: 0.8 };
    const want = await generate(page, { ...request, policy: "none" });

    const behind = await begin(page, request);
    // Otherwise every tab believes it is in front.
    await cdp.send("Emulation.setFocusEmulationEnabled", { enabled: false });
    const front = await context.newPage();
    await front.goto("about:blank");
    await front.bringToFront();
    // Headless Chromium hides no tab.
    t.diagnostic(`behind another tab the page is ${await page.evaluate(() => document.visibilityState)}`);
    assert.deepEqual(await behind.finish(), { all: want, told: want }, "behind another tab");
    await front.close();

    const held = await begin(page, request);
    await page.evaluate(() => {
      for (const end = Date.now() + 500; Date.now() < end;);
    });
    assert.deepEqual(await held.finish(), { all: want, told: want }, "blocked");
    assert.deepEqual(errors, []);
    await context.close();
  },
);

test("two tabs generate at once, each with its own text", limit, async () => {
  const context = await browser.newContext();
  const tabs = [await openTab(context), await openTab(context)];
  const requests = [
    { policy: "eagle2", depth: 3, top_k: 3, nodes: 8 },
    { policy: "chain", temperature: 0.8 },
  ];
  const alone = [];
  for (const [i, { page }] of tabs.entries()) alone.push(await generate(page, { ...requests[i], policy: "none" }));
  assert.notDeepEqual(alone[0], alone[1]);
  for (let times = 0; times < 2; times++)
    assert.deepEqual(await Promise.all(tabs.map(({ page }, i) => generate(page, requests[i]))), alone);
  for (const { errors } of tabs) assert.deepEqual(errors, []);
  await context.close();
});

/**
 * Attack: a worker that is terminated in a round
 * Bound: all that wait are told crash, and the next load works
 */
test("a terminated worker is reported, and the next load works", limit, async () => {
  const context = await browser.newContext();
  const { page, errors } = await openTab(context);
  const want = await generate(page, { max_tokens: 20 });
  const told = await page.evaluate(async (prompt) => {
    const crash = new Promise((resolve) => window.engine.onCrash((error) => resolve(error.message)));
    const code = (promise) =>
      promise.then(
        () => "none",
        (cause) => `${cause.name} ${cause.code}`,
      );
    const run = window.engine.generate(prompt, { max_tokens: 100, seed: 3 });
    // Terminate inside the first round, because the text may be complete when the test receives one.
    const ended = code(
      (async () => {
        for await (const _ of run) window.worker.terminate();
        return run.result;
      })(),
    );
    return [await crash, await ended, await code(window.engine.generate("x").result)];
  }, prompt);
  assert.deepEqual(told, [
    "the worker was terminated from outside the engine",
    "ForetokenError crash",
    "ForetokenError crash",
  ]);
  await page.evaluate(load);
  assert.deepEqual(await generate(page, { max_tokens: 20 }), want);

  // Disposing of the engine is not a crash.
  const quiet = await page.evaluate(async () => {
    let crashed = false;
    window.engine.onCrash(() => (crashed = true));
    await window.engine.dispose();
    await new Promise((resolve) => setTimeout(resolve, 100));
    return crashed;
  });
  assert.equal(quiet, false);
  assert.deepEqual(errors, []);
  await context.close();
});
