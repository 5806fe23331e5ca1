/**
 * `<foretoken-tree>` on a page of its own, in Chromium: it plays a trace without an engine, by pointer, keys and touch,
 * with and without motion. And the page's first screen where nothing can run.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { beforeWorker, dist, limit, openPage, startBrowser, waitForState } from "./site.mjs";

const axe = await fs.readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let host, browser;
const records = [];

before(async () => {
  const page = (attributes) =>
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>A run</title><link rel="icon" href="/site/icon.svg"><main><h1>A run</h1>` +
    `<foretoken-tree ${attributes} draft="Small" target="Large"></foretoken-tree><p style="height:2000px"></p></main>` +
    `<script type="module" src="/site/player.js"></script></html>`;
  const pages = {
    "/plays": page(`src="/site/recorded.trace" autoplay`),
    "/waits": page(`src="/site/recorded.trace"`),
    "/none": page(`src="/site/nothing.trace" autoplay`),
    "/damaged": page(`src="/site/icon.svg" autoplay`),
  };
  host = await startHost({ pages, folders: { "/site/": dist } });
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

const MOVING = { viewport: { width: 1280, height: 800 }, reducedMotion: "no-preference" };

async function open(address, options = {}) {
  const context = await browser.newContext({ ...MOVING, ...options });
  const { page, record } = await openPage(context);
  records.push(record);
  await page.addInitScript(() => {
    window.shown = [];
    addEventListener("foretoken-shown", ({ detail }) => window.shown.push(detail.round));
  });
  await page.goto(host.url + address);
  return page;
}

/** What the player shows: its round, the step's words, the text without later rounds, and how it goes on. */
const state = (page) =>
  page.locator("foretoken-tree").evaluate((player) => {
    const find = (selector) => player.shadowRoot.querySelector(selector);
    const groups = [...player.shadowRoot.querySelectorAll(".text [data-round]:not(.later)")];
    return {
      round: Number(find("input").value),
      caption: find(".caption").textContent,
      text: groups.map((group) => group.textContent).join(""),
      later: player.shadowRoot.querySelectorAll(".text .later").length,
      told: find(".told").textContent,
      button: find(".play").textContent,
      playing: player.playing,
      moving: player.shadowRoot.getAnimations({ subtree: true }).length,
    };
  });
const loaded = (page) => page.waitForFunction(() => document.querySelector("foretoken-tree").trace);
const rounds = (page) => page.evaluate(() => document.querySelector("foretoken-tree").trace.rounds);
const upTo = (all, round) => all.slice(0, round).map(({ text }) => text).join("");

test("it plays by itself, round after round, and ends with the whole text", limit, async () => {
  const page = await open("plays");
  await page.waitForFunction(() => window.shown.length >= 2);
  const all = await rounds(page);
  await page.locator("foretoken-tree select").selectOption("4");
  await page.evaluate(() => document.querySelector("foretoken-tree").show(1e9));
  assert.deepEqual([(await state(page)).text, (await state(page)).button], [upTo(all, all.length), "Watch again"]);
  await page.locator("foretoken-tree .play").click();
  await page.waitForFunction(() => window.shown.filter((round) => round === 1).length === 2);
  assert.equal((await state(page)).later, 0, "a replay writes the text again");
  // To its end, at four times the speed.
  await page.locator("foretoken-tree input").fill(String(all.length - 1));
  await page.locator("foretoken-tree .play").click();
  await page.waitForFunction(() => !document.querySelector("foretoken-tree").playing);
  assert.equal((await state(page)).text, upTo(all, all.length));
  await page.context().close();
});

test("keys step, scrubbing and a click on a token go to a round, and a listener hears it", limit, async () => {
  const page = await open("waits");
  await loaded(page);
  const all = await rounds(page);
  assert.deepEqual([(await state(page)).playing, (await state(page)).round], [false, 1]);
  await page.locator("foretoken-tree .stage").focus();
  const captions = [(await state(page)).caption];
  while ((await state(page)).round === 1) {
    await page.keyboard.press("ArrowRight");
    captions.push((await state(page)).caption);
  }
  captions.pop();
  assert.match(captions.join("\n"), /guesses what may come next[^]*checks \d+ guess[^]*of its own[^]*for one pass of/);
  assert.match((await state(page)).told, /^Round 1 of \d+\. The small model guessed/);
  await page.keyboard.press("ArrowLeft");
  const first = await state(page);
  assert.deepEqual([first.round, first.text, first.caption], [1, upTo(all, 1), captions.at(-1)]);
  for (const [key, round] of [["PageDown", 2], ["PageDown", 3], ["PageUp", 2], ["End", all.length], ["Home", 1]]) {
    await page.keyboard.press(key);
    const { round: at, text, told } = await state(page);
    assert.deepEqual([at, text], [round, upTo(all, round)], key);
    assert.ok(told.startsWith(`Round ${round} of `), told);
  }
  assert.equal((await state(page)).later, all.length - 1, "the rounds after the one that is shown stay, dimmed");
  await page.keyboard.press("Space");
  assert.equal((await state(page)).playing, true);
  await page.keyboard.press("Space");
  assert.equal((await state(page)).playing, false);

  // A click on a token of the text.
  await page.locator("foretoken-tree [data-round='4'] > span").first().click();
  assert.deepEqual([(await state(page)).round, (await state(page)).text], [4, upTo(all, 4)]);
  // The range, by keyboard and by touch or pointer.
  await page.locator("foretoken-tree input").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal((await state(page)).round, 5);
  const { x, y, width, height } = await page.locator("foretoken-tree input").boundingBox();
  await page.mouse.move(x + 4, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y + height / 2, { steps: 5 });
  await page.mouse.up();
  const { round } = await state(page);
  assert.ok(Math.abs(round - all.length / 2) <= 2, `round ${round} in the middle of ${all.length}`);
  await page.context().close();
});

test("every node has its probability, white space is visible, and a narrow page does not overflow", limit, async () => {
  const page = await open("waits", { viewport: { width: 390, height: 844 }, hasTouch: true });
  await loaded(page);
  const all = await rounds(page);
  for (let round = 1; round <= all.length; round++) {
    await page.evaluate((round) => document.querySelector("foretoken-tree").show(round), round);
    const seen = await page.locator("foretoken-tree").evaluate((player) => {
      const box = player.shadowRoot.querySelector(".drawing").getBoundingClientRect();
      return [...player.shadowRoot.querySelectorAll(".nodes .node")].map((node) => {
        const { top, bottom, left, right } = node.getBoundingClientRect();
        return {
          kind: node.className,
          text: node.firstChild.textContent,
          share: node.querySelector("small")?.textContent,
          inside: top >= box.top - 1 && bottom <= box.bottom + 1 && left >= box.left - 1 && right <= box.right + 1,
        };
      });
    });
    for (const { kind, text, share, inside } of seen) {
      assert.doesNotMatch(text, /\s/, `round ${round}: white space in ${JSON.stringify(text)}`);
      if (/kept|gone/.test(kind)) assert.match(share, /^\d+ %$/, `round ${round}: ${text}`);
      assert.ok(inside, `round ${round}: ${text} is cut off`);
    }
    assert.equal(seen.filter(({ kind }) => /kept/.test(kind)).length, all[round - 1].tree.accepted.length);
  }
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
  await page.context().close();
});

test("without motion it waits, steps, and nothing moves", limit, async () => {
  const page = await open("plays", { reducedMotion: "reduce" });
  await loaded(page);
  const all = await rounds(page);
  const { playing, round, text } = await state(page);
  assert.deepEqual([playing, round, text], [false, 1, upTo(all, 1)]);
  await page.locator("foretoken-tree .play").click();
  await page.waitForFunction(() => window.shown.includes(2));
  assert.equal((await state(page)).moving, 0);
  await page.waitForFunction(() =>
    document.querySelector("foretoken-tree").shadowRoot.querySelector(".text [data-round='2']"),
  );
  assert.equal((await state(page)).moving, 0);
  await page.context().close();
});

test("it stops while its tab is hidden or it is out of view, and goes on afterwards", limit, async () => {
  const page = await open("plays");
  await page.waitForFunction(() => window.shown.length > 0);
  const hide = (hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  for (const [stop, go] of [
    [() => hide(true), () => hide(false)],
    [() => page.evaluate(() => scrollTo(0, 1e6)), () => page.evaluate(() => scrollTo(0, 0))],
  ]) {
    await stop();
    await page.waitForTimeout(300); // an observer has told
    const before = await state(page);
    await page.waitForTimeout(2500); // longer than every step
    const after = await state(page);
    assert.deepEqual([after.round, after.caption], [before.round, before.caption]);
    assert.ok(after.playing, "it would play");
    await go();
    await page.waitForFunction(
      (caption) =>
        document.querySelector("foretoken-tree").shadowRoot.querySelector(".caption").textContent !== caption,
      before.caption,
    );
  }
  await page.context().close();
});

test("what cannot be played is said in a sentence", limit, async () => {
  for (const [address, says] of [
    ["none", /nothing\.trace cannot be played: the server answered 404/],
    ["damaged", /icon\.svg cannot be played: trace: its version is \d+, and this program reads version 1/],
  ]) {
    const page = await open(address);
    const caption = page.locator("foretoken-tree .caption");
    await caption.filter({ hasText: "cannot" }).waitFor();
    assert.match(await caption.innerText(), says);
    assert.equal(await page.locator("foretoken-tree button:enabled").count(), 0);
    records.at(-1).errors = records.at(-1).errors.filter((error) => !/404/.test(error));
    await page.context().close();
  }
});

test("axe finds no problem in the player, light or dark, at any width", limit, async () => {
  for (const viewport of [
    { width: 1280, height: 800 },
    { width: 390, height: 844 },
  ])
    for (const colorScheme of ["light", "dark"]) {
      const page = await open("waits", { viewport, colorScheme });
      await loaded(page);
      await page.evaluate(() => document.querySelector("foretoken-tree").show(1e9));
      await page.evaluate(() => document.querySelector("foretoken-tree").show(3));
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const { violations } = await window.axe.run(document);
        return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.failureSummary}`));
      });
      assert.deepEqual(found, []);
      await page.context().close();
    }
});

const NO_SIMD = "WebAssembly.compile = async () => { throw new WebAssembly.CompileError('no SIMD here'); };";

for (const [name, prepare, says] of [
  [
    "where no program starts",
    (page) => page.route("**/foretoken.wasm*", (route) => route.fulfill({ status: 404, body: "" })),
    /^The recording plays, but nothing runs here: \S/,
  ],
  ["without WebGPU and SIMD", (page) => beforeWorker(page, NO_SIMD), /no SIMD here/],
])
  test(`${name} the recording plays, and a sentence says what is missing`, limit, async (t) => {
    const context = await browser.newContext(MOVING);
    const { page } = await openPage(context);
    await prepare(page);
    await page.addInitScript(() => {
      window.shown = 0;
      addEventListener("foretoken-shown", () => window.shown++);
    });
    await page.goto(`${host.url}site/`);
    await waitForState(page, ["ready", "failed"]);
    const said = await page.locator("#live").innerText();
    t.diagnostic(said);
    assert.match(said, says);
    await page.waitForFunction(() => window.shown >= 2);
    await context.close();
  });

test("the button stops its run too, and what was written is replayed", limit, async () => {
  const context = await browser.newContext({ viewport: MOVING.viewport });
  const { page } = await openPage(context);
  await page.goto(`${host.url}site/?device=reference&policy=chain&depth=2`);
  await page.fill("#prompt", "func add(a, b int) int {\n"); // an edited prompt is run, not the recording's
  await page.evaluate(() => {
    const button = document.getElementById("run-here");
    document
      .querySelector("foretoken-widget")
      .addEventListener("foretoken-round", () => button.click(), { once: true });
    button.click();
  });
  await page.locator("#live", { hasText: "Written here" }).waitFor();
  const { prompt, finish } = await page.evaluate(() => document.querySelector("foretoken-tree").trace);
  assert.deepEqual([prompt, finish], ["func add(a, b int) int {\n", "aborted"]);
  assert.deepEqual([(await state(page)).button, (await state(page)).playing], ["Watch again", false]);
  assert.equal(await page.locator("#run-here").innerText(), "Run it again");
  await context.close();
});

test("no errors in a console, and no engine for a player", () => {
  assert.deepEqual(
    records.flatMap((record) => record.errors),
    [],
  );
  const asked = records.flatMap((record) => record.requests).map((url) => path.basename(new URL(url).pathname));
  assert.ok(asked.includes("recorded.trace"));
  assert.deepEqual(
    asked.filter((name) => /\.(wasm|gguf)$|worker/.test(name)),
    [],
  );
});
