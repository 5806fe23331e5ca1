/** The page in Chromium with a scripted engine: drawing, sharing, exporting, and the cost of streaming. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { startHost } from "./host.mjs";
import { generated, limit, openLab, openPage, openSettings, startBrowser, waitForState, web } from "./site.mjs";

const mock = path.join(web, "node_modules", ".cache", "mock-site");

let browser, site;
const records = [];

before(async () => {
  await promisify(execFile)(process.execPath, ["build.mjs", "--mock"], { cwd: web });
  site = await startHost({ folders: { "/": mock } });
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await site?.stop();
});

async function open(address, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    acceptDownloads: true,
    ...options,
  });
  const opened = await openPage(context);
  records.push(opened.record);
  await opened.page.goto(site.url + address);
  await waitForState(opened.page, ["ready", "failed"]);
  return opened.page;
}

const text = (page, selector) => page.locator(selector).first().innerText();

test("the tree, the charts and the text of a run", limit, async (t) => {
  const page = await open("?policy=hetero&max-tokens=48#run");
  // What happened and how is open; the lab, with every figure, is not.
  assert.deepEqual(
    await page.locator("details.level").evaluateAll((all) => all.map((one) => [one.className, one.open])),
    [
      ["level how", true],
      ["level lab", false],
    ],
  );
  await openLab(page);
  await page.evaluate(() => {
    window.shift = 0;
    scrollTo(0, 0); // figures that get their digits count as moved where they are in view
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => (window.shift += entry.value))).observe({
      type: "layout-shift",
    });
  });
  await page.evaluate(() => document.querySelector("foretoken-widget").generate());
  await page.waitForSelector(".tree .node.pruned");
  await page.waitForSelector("#charts canvas");
  assert.equal(await page.evaluate(() => window.shift), 0, "nothing moved while the text came");
  const last = page.locator("svg.tree");
  assert.match(
    await last.getAttribute("aria-label"),
    /\d+ drafted tokens verified in \d+ levels: \d+ accepted, \d+ rejected; \d+ pruned before/,
  );
  for (const state of ["root", "rejected", "pruned"])
    assert.ok((await last.locator(`.node.${state}`).count()) > 0, state);

  // By keyboard: one tab stop, arrow keys between nodes, and entropies in the labels.
  const node = last.locator(".node.rejected").first();
  assert.equal(await last.locator('[tabindex="0"]').count(), 1);
  await last.locator(".node.root").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  const told = await text(page, "#tree-details");
  assert.match(told, /· depth \d+ · score -?\d+\.\d+/);
  assert.equal(await last.locator('[tabindex="0"]').count(), 1);
  await page.keyboard.press("Home");
  assert.match(
    await text(page, "#tree-details"),
    /the last token.*entropy of what follows: target 0\.25, draft 0\.50 nats/,
  );
  await page.evaluate(() => document.activeElement.shadowRoot.activeElement.blur());
  await node.hover();
  await page.waitForFunction(() =>
    /rejected/.test(document.querySelector("foretoken-widget").shadowRoot.querySelector("#tree-details").textContent),
  );
  await page.mouse.move(5, 5);
  await page.click(".tree-text summary");
  // One line per node; the text is written once it is visible.
  await page.waitForFunction(
    (nodes) =>
      document.querySelector("foretoken-widget").shadowRoot.querySelector("#tree-text").textContent.split("\n")
        .length === nodes,
    await last.locator(".node").count(),
  );
  const lines = (await text(page, "#tree-text")).split("\n");

  assert.deepEqual(await page.locator("#charts figure").evaluateAll((all) => all.map((f) => f.dataset.chart)), [
    "tokens",
    "size",
    "entropy",
    "time",
  ]);
  for (const plot of await page.locator("#charts .plot").all()) {
    assert.ok(
      await plot.locator("canvas").evaluate((c) =>
        c
          .getContext("2d")
          .getImageData(0, 0, c.width, c.height)
          .data.some((x) => x > 0),
      ),
      "the chart is drawn",
    );
    assert.match(await plot.getAttribute("aria-label"), /: .*\d/);
  }
  assert.match(await text(page, "#charts .bins"), /^rounds by entropy bin: 1 × \d+, 2 × \d+/);
  const kinds = await page
    .locator(".output .token")
    .evaluateAll((all) => new Set(all.map((one) => one.className)).size);
  assert.ok(
    kinds >= 2 && (await page.locator(".legend .token").count()) === 5,
    "tokens are marked, and the marks explained",
  );
  t.diagnostic(`layout shift while streaming: 0; tree of ${lines.length} nodes`);
  await page.context().close();
});

test("rounds bring their trees while the panel shows them; opened later, it has the last one", limit, async () => {
  const page = await open("?policy=eagle2&max-tokens=24#run");
  await page.evaluate(() => {
    window.trees = [];
    addEventListener("foretoken-round", ({ detail }) => window.trees.push(detail.tree !== undefined));
  });
  const run = async () => {
    await page.evaluate(() => (window.trees.length = 0));
    await generated(page, () => page.click("#generate"));
    return page.evaluate(() => [...new Set(window.trees)]);
  };
  await page.click(".level.how > summary");
  assert.deepEqual(await run(), [false]);
  assert.equal(await page.locator("svg.tree").count(), 0);
  await page.click(".level.how > summary");
  await page.locator("svg.tree .node.pruned").first().waitFor();
  assert.deepEqual(await run(), [true]);
  await page.context().close();
});

test(
  "4,000 tokens: the work per round is bounded, blocks out of view are skipped, scrolling continues",
  limit,
  async (t) => {
    const page = await open("?policy=chain&depth=8&max-tokens=4000#run");
    await page.evaluate(() => {
      const box = document.querySelector("foretoken-widget").shadowRoot.querySelector("#output");
      window.seen = { most: 0, moved: 0, shift: 0, tokens: 0, rounds: 0 };
      let expected = 0;
      document
        .querySelector("foretoken-widget")
        .addEventListener("foretoken-round", ({ detail }) => (expected += detail.tokens.length));
      new MutationObserver((list) => {
        const added = list.reduce((n, { addedNodes }) => n + addedNodes.length, 0);
        window.seen.removed =
          (window.seen.removed ?? 0) + list.reduce((n, { removedNodes }) => n + removedNodes.length, 0);
        // A span per token, and sometimes a block.
        window.seen.excess = Math.max(window.seen.excess ?? 0, added - 2 * expected - 2);
        expected = 0;
      }).observe(box, { childList: true, subtree: true });
      new PerformanceObserver((list) =>
        list.getEntries().forEach((entry) => (window.seen.shift += entry.value)),
      ).observe({ type: "layout-shift" });
    });
    const result = await page.evaluate(() => document.querySelector("foretoken-widget").generate());
    assert.equal(result.token_ids.length, 4000);
    const seen = await page.evaluate(() => window.seen);
    assert.ok(seen.excess <= 0, `a frame added ${seen.excess} nodes more than its tokens need`);
    assert.ok(seen.removed <= 4, `${seen.removed} nodes of the text were removed during streaming`);
    assert.equal(seen.shift, 0);
    // The browser knows the skipped blocks after drawing a frame.
    await page.waitForFunction(() => {
      const all = [...document.querySelector("foretoken-widget").shadowRoot.querySelectorAll("#output .lines")];
      window.seen.blocks = all.length;
      window.seen.skipped = all.filter(
        (block) => !block.firstElementChild.checkVisibility({ contentVisibilityAuto: true }),
      ).length;
      return window.seen.skipped > 0.5 * all.length;
    });
    const { blocks, skipped, frames, long } = await page.evaluate(async () => {
      const box = document.querySelector("foretoken-widget").shadowRoot.querySelector("#output");
      const { blocks, skipped } = window.seen;
      let long = 0;
      new PerformanceObserver((list) =>
        list.getEntries().forEach((entry) => (long = Math.max(long, entry.duration))),
      ).observe({ type: "longtask" });
      const frames = [];
      box.scrollTop = 0;
      let before = await new Promise(requestAnimationFrame);
      for (let i = 0; i < 90; i++) {
        box.scrollTop += 160;
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - before);
        before = now;
      }
      return { blocks, skipped, frames, long };
    });
    const sorted = [...frames].sort((a, b) => a - b);
    t.diagnostic(
      `scrolling 4,000 tokens: ${(1000 / (frames.reduce((a, b) => a + b) / frames.length)).toFixed(0)} frames a ` +
      `second, median ${sorted[45].toFixed(1)} ms, slowest ${sorted.at(-1).toFixed(1)} ms, longest task ` +
      `${long.toFixed(0)} ms; ${skipped} of ${blocks} blocks skipped`,
    );
    await page.context().close();
  },
);

test("a link contains only prompt and settings, and a hostile link changes nothing", limit, async () => {
  const page = await open("?policy=mars&theta=0.5&depth=3#run");
  await page.fill("#prompt", "func a() {\n\t“ü”&=#%\n");
  await openSettings(page);
  await page.fill("#max_tokens", "12");
  await page.click("#share");
  const link = await page.inputValue("#link");
  assert.match(
    link,
    /^http:\/\/127\.0\.0\.1:\d+\/#share\?v=1&prompt=/,
    "everything is in the fragment, which servers do not receive",
  );
  const held = new URLSearchParams(link.split("#share?")[1]);
  assert.deepEqual(
    [held.get("policy"), held.get("theta"), held.get("depth"), held.get("max-tokens")],
    ["mars", "0.5", "3", "12"],
  );
  assert.ok([...held.keys()].every((name) => !/target|draft|file|text|result/.test(name)));

  const state = (page) =>
    page.evaluate(() => {
      const { shadowRoot } = document.querySelector("foretoken-widget");
      return Object.fromEntries(
        [...shadowRoot.querySelectorAll(".settings :is(input, select):not([type=file]), #prompt")].map((e) => [
          e.id,
          e.type === "checkbox" ? e.checked : e.value,
        ]),
      );
    });
  const there = await open(link.slice(site.url.length));
  await there.waitForSelector("#said:not([hidden])");
  const [from, to] = [await state(page), await state(there)];
  for (const id of ["prompt", "policy", "theta", "depth", "max_tokens", "temperature", "seed"])
    assert.equal(to[id], from[id], id);

  for (const [fragment, reason] of [
    ["v=1&prompt=x&temperature=99", /temperature.*not 0 \(greedy\) or 0\.001 to 2/],
    ["v=1&prompt=x&depth=x", /depth.*not a number/],
    ["v=1&prompt=x&depth=1e999", /depth/],
    ["v=1&prompt=x&policy=evil", /policy.*not a method/],
    ["v=1&prompt=x&policy=chain&policy=mars", /twice/],
    ["v=1&prompt=x&target=https%3A%2F%2Fevil.example%2Fm.gguf", /target.*not a setting/],
    ["v=1&prompt=x&__proto__=1", /__proto__.*not a setting/],
    ["v=9&prompt=x", /version/],
    ["v=1&policy=chain", /prompt: missing/],
    ["v=1&prompt=%zz", /percent/],
    ["v=1&prompt=%00", /invalid characters/],
    ["v=1&prompt=x&coupled=maybe", /neither true nor false/],
    ["v=1&prompt=x&shape=[[1e9]]", /shape/],
    [`v=1&prompt=${"x".repeat(40_000)}`, /at most 32768/],
    ["v=1&prompt=x&variant=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", /not one of/],
  ]) {
    const earlier = await state(there);
    await there.evaluate((hash) => {
      document.querySelector("#said").textContent = "";
      location.hash = hash;
    }, `share?${fragment}`);
    await there.waitForFunction(() => /^link: /.test(document.querySelector("#said").textContent));
    const said = await text(there, "#said");
    assert.match(said, reason, fragment.slice(0, 60));
    assert.match(said, /Nothing was changed/);
    assert.deepEqual(await state(there), earlier, fragment.slice(0, 60));
  }
  await page.context().close();
  await there.context().close();
});

test("an address with values that are none says which, and its request is refused", limit, async () => {
  const page = await open("?temperature=NaN&seed=abc&max-tokens=8&top-p=0&policy=none");
  const notice = page.locator("foretoken-widget #notice");
  assert.match(await notice.innerText(), /temperature: "NaN" is not a number.*\n+seed: "abc" is not a number/);
  const ask = () =>
    page.evaluate(() =>
      document
        .querySelector("foretoken-widget")
        .generate()
        .then(
          ({ token_ids }) => token_ids.length,
          ({ code, param, message }) => [code, param, message],
        ),
    );
  const [code, param, message] = await ask();
  assert.deepEqual([code, param], ["bad_option", "temperature"]);
  assert.match(message, /^temperature: "NaN" is not a number; want 0 \(greedy\)/);
  await page.evaluate(() => {
    document.querySelector("foretoken-widget").setAttribute("temperature", "0");
    document.querySelector("foretoken-widget").removeAttribute("seed");
  });
  assert.equal(await notice.isVisible(), false);
  assert.equal(await ask(), 8);
  for (const settle of [
    (host) => host.shadowRoot.querySelector("#reset").click(),
    (host) => host.shadowRoot.querySelector('[aria-label="Reset Seed"]').click(),
    () => (location.hash = "share?v=1&prompt=x"),
  ]) {
    await page.evaluate(() => document.querySelector("foretoken-widget").setAttribute("seed", "abc"));
    assert.match(await notice.innerText(), /^seed: "abc" is not a number/);
    await page.evaluate(`(${settle})(document.querySelector("foretoken-widget"))`);
    await notice.waitFor({ state: "hidden" });
    await page.evaluate(() => document.querySelector("foretoken-widget").removeAttribute("seed"));
  }
  await page.context().close();
});

test("tabs, and the run as JSON", limit, async () => {
  const page = await open("?policy=eagle2&max-tokens=24");
  assert.equal(
    await page.locator("#tab-chat").getAttribute("aria-selected"),
    "true",
    "a model with a template starts in chat",
  );
  await page.locator("#tab-chat").focus();
  await page.keyboard.press("ArrowLeft");
  await page.locator("#prompt").waitFor();
  await generated(page, () => page.click("#generate"));
  await page.click("#share");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
  const run = JSON.parse(await fs.readFile(await file.path(), "utf8"));
  assert.deepEqual(
    [run.format, run.version, run.request.policy, run.result.token_ids.length],
    ["foretoken-run", 2, "eagle2", 24],
  );
  assert.equal(run.rounds.map((r) => r.text).join(""), run.result.text);
  assert.equal(Buffer.from(run.trace, "base64")[0], 1, "the version of a trace");
  assert.ok(run.rounds[0].pruned > 0 && run.target.name && run.device.backend);

  await page.context().close();
});

test("settings have hints, presets set a method, and both can be reset", limit, async () => {
  const page = await open("?policy=chain&depth=7#run");
  await openSettings(page);
  const value = (id) => page.inputValue(`#${id}`);
  for (const hint of await page.locator(".settings .field .hint").allTextContents())
    assert.match(hint, /\S.*\. .*by default$/);
  assert.equal(
    await page.locator("#hint-depth").innerText(),
    "Tokens drafted a round, or for trees levels after the first. 5 by default",
  );
  assert.equal(
    await page.locator("#hint-temperature").innerText(),
    "Temperature of the draws. Takes 0 (greedy) or 0.001 to 2; 0 by default",
  );
  assert.equal(await value("depth"), "7");
  await page.click("[aria-label='Reset Depth']");
  assert.equal(await value("depth"), "");
  assert.ok(await page.locator("[aria-label='Reset Depth']").isHidden());

  await page.check("#presets input[value=mars]");
  assert.equal(await value("policy"), "mars");
  assert.match(await text(page, "#exactness"), /^lossy$/i);
  assert.match(await text(page, "#method-about"), /may differ/);
  for (const preset of await page.locator(".preset").all())
    assert.match(await preset.innerText(), /(exact|lossy)[\s\S]*\./i);
  await page.check("#presets input[value=none]");
  assert.equal(await page.locator("#speculation").isChecked(), false);
  await page.fill("#max_tokens", "9");
  await page.click("#reset");
  assert.deepEqual(
    [await value("max_tokens"), await value("policy"), await page.locator("#speculation").isChecked()],
    ["64", "auto", true],
  );
  await page.context().close();
});

test("no errors in a console", () => {
  assert.deepEqual(
    records.flatMap((record) => record.errors),
    [],
  );
});
