/**
 * The built page as a new visitor has it: a fresh profile, no parameters in the address, without and with WebGPU, on a
 * desktop and on a phone.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { brokenModels, dist, generated, limit, openPage, startProfile, waitForState } from "./site.mjs";

const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };

let host;
const folders = [];

before(async () => {
  folders.push(await brokenModels());
  const doc =
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>Docs</title><h1>Docs</h1><foretoken-widget max-tokens="12"></foretoken-widget><p id="below">Below</p>` +
    `<link rel="icon" href="icon.svg"><script type="module" src="widget.js"></script></html>`;
  host = await startHost({ pages: { "/doc.html": doc }, folders: { "/own/": folders[0], "/": dist }, isolated: true });
});

after(async () => {
  await host?.stop();
  for (const folder of folders) await fs.rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

/**
 * Opens an address of the site in a new profile, runs `work` on the page, and checks its console and its requests;
 * `others` are the hosts that `work` makes it ask, which do not answer.
 */
async function visit(viewport, work, { webgpu = false, address = "", others = [] } = {}) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-visit-"));
  folders.push(folder);
  const context = await startProfile(webgpu, folder, { viewport });
  try {
    const { page, record } = await openPage(context);
    await page.addInitScript(() => {
      window.shift = 0;
      window.moved = [];
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
          if (entry.hadRecentInput) continue;
          window.shift += entry.value;
          if (entry.value > 0.004) window.moved.push(...entry.sources.map(({ node }) => node?.outerHTML ?? node?.data));
        }
      }).observe({ type: "layout-shift", buffered: true });
      window.first = {};
      addEventListener("foretoken-shown", () => (window.first.moved ??= Math.round(performance.now())));
      addEventListener("foretoken-ready", () => (window.first.ready ??= Math.round(performance.now())));
    });
    await page.goto(host.url + address);
    assert.match(await waitForState(page, ["idle", "ready", "failed"]), address === "doc.html" ? /idle/ : /ready/);
    await work(page, record);
    const foreign = record.requests.filter((url) => !url.startsWith(host.url) && !/^(blob|data):/.test(url));
    assert.deepEqual([...new Set(foreign.map((url) => new URL(url).host))], others);
    assert.deepEqual(
      record.errors.filter((error) => !others.some((other) => error.includes(other))),
      [],
    );
  } finally {
    await context.close();
  }
}

const text = (page, selector) => page.locator(selector).first().innerText();
const box = (page, selector) => page.locator(selector).first().boundingBox();

/** Whether all of an element is in the window, without scrolling. */
async function inView(page, selector) {
  const { x, y, width, height } = await box(page, selector);
  const window = page.viewportSize();
  const seen = x >= 0 && y >= 0 && x + width <= window.width && y + height <= window.height;
  assert.ok(seen && width > 0 && height > 0, `${selector} is out of view: ${JSON.stringify({ x, y, width, height })}`);
}

for (const [name, viewport, webgpu] of [
  ["a desktop", DESKTOP, false],
  ["a desktop with WebGPU", DESKTOP, true],
  ["a phone", PHONE, false],
])
  test(`the first view on ${name}: a recording that moves, where it runs, and one big button`, limit, async (t) => {
    const first = async (page) => {
      for (const selector of ["h1", ".idea", "foretoken-tree .drawing", "foretoken-tree .text", "#run-here", "#live"])
        await inView(page, selector);
      const { moved, ready } = await page.evaluate(() => window.first);
      assert.ok(moved < ready, `the recording moved after ${moved} ms, the engine was ready after ${ready}`);
      assert.match(await text(page, "#live"), /unning on (\d+ CPU threads?|this machine's GPU)/);
      const heights = await page
        .locator("button:visible")
        .evaluateAll((all) =>
          all
            .filter((one) => one.getBoundingClientRect().top < innerHeight)
            .map((one) => [one.id, one.offsetHeight]),
        );
      const [big, ...rest] = heights.sort(([, a], [, b]) => b - a);
      assert.equal(big[0], "run-here");
      assert.ok(big[1] >= 44 && rest.every(([, height]) => height < big[1]), JSON.stringify(heights));
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= viewport.width);

      const recorded = await page.evaluate(() => document.querySelector("foretoken-tree").trace.prompt);
      const result = await generated(page, () => page.click("#run-here"));
      await page.waitForFunction(() => document.querySelector("foretoken-tree").playing); // the replay
      const replayed = await page.evaluate(() => {
        const { prompt, rounds, rest } = document.querySelector("foretoken-tree").trace;
        return [prompt, rounds.map((round) => round.text).join("") + rest];
      });
      assert.deepEqual(replayed, [recorded, result.text]);
      assert.match(await text(page, "#live"), /^Written here in .* tokens in \d+ passes/);
      assert.equal(await page.inputValue("#prompt"), recorded);
      const [shift, nodes] = await page.evaluate(() => [window.shift, window.moved]);
      assert.ok(shift <= 0.02, `the layout shifted by ${shift}: ${nodes.join("; ").slice(0, 400)}`);
      t.diagnostic(`first motion after ${moved} ms, ready after ${ready} ms; layout shift ${shift.toFixed(4)}`);
    };
    await visit(viewport, first, { webgpu });
  });

for (const [name, viewport] of [
  ["a desktop", DESKTOP],
  ["a phone", PHONE],
])
  test(`the visitor's own text on ${name}: text, figures and the verdict`, limit, async (t) => {
    const write = async (page) => {
      assert.equal(await page.locator("details.settings").getAttribute("open"), null, "the settings are open");
      const { stats } = await generated(page, () => page.click("#generate"));
      assert.match(await text(page, "#gain"), /^\d+ tokens in \d+ steps/);
      assert.match(await page.locator("#output").textContent(), /\n}\n$/, "the function of the example does not end");
      assert.ok(stats.drafted > 0, "nothing was drafted");
      await page.locator(".tree .node").first().waitFor({ state: "attached" });
      // A line break has no box: an accepted token is looked for, not a visible one.
      if (stats.accepted > 0) await page.locator("#output .token.accepted").first().waitFor({ state: "attached" });
      for (const selector of ["main", ".work", ".panel"])
        assert.doesNotMatch(await text(page, selector), /bonus|Φ|goodput/i);
      const { verdict } = await page.evaluate(() => document.querySelector("foretoken-widget").compare({ turns: 1 }));
      assert.match(verdict.line, /, the same \d+ tokens$/);
      assert.deepEqual([await text(page, "#status"), await text(page, "#gain")], [verdict.line, verdict.line]);
      const [work, panel] = [await box(page, ".work"), await box(page, ".panel")];
      if (viewport === PHONE) assert.ok(panel.y - (work.y + work.height) <= 20, "figures are not under the text");
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= viewport.width);
      t.diagnostic(`${await text(page, "#runs-on")}: ${verdict.line}`);
    };
    await visit(viewport, write);
  });

test("without a chat model the chat tab offers one, in one click that shows size and licence", limit, async () => {
  const hub = "huggingface.co";
  const offer = async (page, record) => {
    await page.context().route(`https://${hub}/**`, (route) => route.abort());
    await page.click("#tab-chat");
    await page.waitForSelector("#offer");
    assert.equal(await page.locator("#tab-chat").getAttribute("aria-selected"), "true");
    for (const selector of ["#prompt", "#generate", "#output", ".panel"])
      assert.ok(await page.locator(selector).first().isHidden(), `${selector} is shown, and does nothing here`);
    const rows = await page.locator("#offer li").allInnerTexts();
    assert.ok(rows.length > 3);
    const wanted = new RegExp(`[MG]B of memory.* · \\S+.* · from ${hub}[^]*Load (.*[MG]B|a file of unknown size)`);
    for (const row of rows) assert.match(row, wanted);
    assert.match(await page.locator("#offer li button").first().innerText(), /^Load .*[MG]B$/);
    await inView(page, "#offer li button");
    assert.ok(!record.requests.some((url) => url.includes(hub)), "asked before the click");
    // Back in the tab of the text everything is there.
    await page.click("#tab-run");
    await page.waitForSelector("#generate");
    assert.ok(await page.locator("#offer").isHidden());
    await page.click("#tab-chat");
    const asked = page.waitForEvent("request", (request) => request.url().includes(hub));
    await page.locator("#offer li button").first().click();
    await asked;
    await waitForState(page, "failed"); // the host does not answer
    assert.match(await text(page, "#error"), /gguf: download: /);
    assert.ok(await page.locator("#offer li button").first().isVisible(), "another try is possible");
  };
  await visit(DESKTOP, offer, { others: [hub], address: "?target=own/silent.gguf" });
  await visit(
    PHONE,
    async (page) => {
      await page.context().route("https://elsewhere.invalid/**", (route) => route.abort());
      await page.waitForSelector("#offer li");
      await page.evaluate(() => (window.shift = 0)); // without the notice about the model
      const asked = page.waitForEvent("request", (request) => request.url().includes("elsewhere.invalid"));
      await page.locator("#offer li button").first().click();
      await asked;
      const shift = await page.evaluate(() => window.shift);
      assert.ok(shift <= 0.02, `the layout shifted by ${shift}`);
      // The button names another hub than the default one.
      assert.match(await text(page, "#offer li button"), /^Load .*[MG]B from elsewhere\.invalid/);
    },
    { address: "?target=own/silent.gguf&hub=https://elsewhere.invalid#chat", others: ["elsewhere.invalid"] },
  );
});

test("the built-in pair answers a question in the chat tab", limit, async () => {
  await visit(DESKTOP, async (page) => {
    await page.click("#tab-chat");
    await page.waitForSelector("#transcript .chip");
    assert.match(await text(page, "#transcript"), /a toy that knows Go's library a little/);
    await generated(page, () => page.locator("#transcript .chip").first().click());
    await page.waitForSelector("#transcript .message.assistant .again:enabled");
    const [question, answer] = await page.locator("#transcript .message-text").allTextContents();
    assert.equal(question, "What does strings.Fields do?");
    assert.match(answer, /^\s*Fields /);
  });
});

test("a reload keeps the tab, the model, the prompt, the settings and the conversation", limit, async () => {
  const reloads = async (page) => {
    const settings = () => page.locator("details.settings > summary").click();
    const reload = async () => {
      await page.reload();
      assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
    };
    await page.fill("#prompt", "func mine() {\n");
    await settings();
    await page.fill("#max_tokens", "6");
    await page.click("#own-models > summary");
    await page.click("#models-name");
    await page.fill("#target-name", `${host.url}own/talking.gguf`);
    await page.click("#load");
    await page.waitForSelector("#tab-chat[aria-selected=true]"); // the tab that works with this model
    await page.fill("#message", "Close closes the file.");
    await generated(page, () => page.keyboard.press("Enter"));
    await page.waitForSelector("#transcript .message.assistant .again:enabled");
    const shown = async () => {
      await page.waitForSelector("#transcript .message.assistant .rendered");
      return page.locator("#transcript .message-text").allTextContents();
    };
    const before = { messages: await shown(), model: await text(page, "#model-line") };
    assert.equal(before.messages.length, 2);

    await reload();
    assert.equal(await page.locator("#tab-chat").getAttribute("aria-selected"), "true");
    assert.deepEqual({ messages: await shown(), model: await text(page, "#model-line") }, before);
    assert.equal(await page.inputValue("#prompt"), "func mine() {\n");
    assert.equal(await page.inputValue("#max_tokens"), "6");
    // The model sees the restored conversation.
    await page.fill("#message", "Open opens it.");
    const second = await generated(page, () => page.keyboard.press("Enter"));
    assert.ok(second.stats.prompt_tokens > 20, `${second.stats.prompt_tokens} tokens in the prompt`);

    await page.click("#tab-run");
    await reload();
    assert.equal(await page.locator("#tab-run").getAttribute("aria-selected"), "true");
    assert.equal(await page.inputValue("#prompt"), "func mine() {\n");
    // Another visit in the same tab starts afresh.
    await page.goto(`${host.url}?`);
    await waitForState(page, "ready");
    assert.notEqual(await page.inputValue("#prompt"), "func mine() {\n");
  };
  await visit(DESKTOP, reloads);
});

for (const [name, viewport] of [
  ["a desktop", DESKTOP],
  ["a phone", PHONE],
])
  test(`the default widget on ${name}: prompt, text and gain, in the height that it reserved`, limit, async (t) => {
    const embed = async (page) => {
      const below = () => page.evaluate(() => document.getElementById("below").getBoundingClientRect().top + scrollY);
      const before = await below();
      // Without what the page did until it had the element.
      await page.evaluate(() => ([window.shift, window.moved] = [0, []]));
      await generated(page, () => page.locator("#generate").click());
      const steps = await text(page, "#gain");
      assert.match(steps, /^12 tokens in \d+ steps/);
      assert.ok(Math.abs((await below()) - before) <= 1, `the page moved from ${before} to ${await below()}`);
      for (const selector of ["#prompt", "#output", "#gain", "#generate", "#stop", "#compare", "#status"])
        assert.ok(await page.locator(selector).isVisible(), selector);
      assert.match(await text(page, ".legend"), /^guessed right\s+guess corrected\s+extra token$/);
      for (const selector of [".panel", ".settings", "#speculation"])
        assert.ok(await page.locator(selector).isHidden(), selector);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= viewport.width);
      const [shift, nodes] = await page.evaluate(() => [window.shift, window.moved]);
      assert.ok(shift <= 0.02, `the layout shifted by ${shift}: ${nodes.join("; ").slice(0, 400)}`);
      t.diagnostic(`the text below stays at ${before}; ${steps}`);
      await page.evaluate(() => document.querySelector("foretoken-widget").setAttribute("full", ""));
      for (const selector of [".panel", ".settings", ".legend b", "#stat-speed"])
        assert.ok(await page.locator(selector).first().isVisible(), `${selector} with full`);
    };
    await visit(viewport, embed, { address: "doc.html" });
  });
