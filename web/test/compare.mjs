/**
 * The compare tab with a scripted engine, on a desktop and a phone: one button, silent turns, the verdict, the replay
 * and what explains it. And `<foretoken-race>` on a page of its own, without an engine.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { startHost } from "./host.mjs";
import { usesPlayground } from "./playgrounds.mjs";
import { generated, limit, openPage, startBrowser, waitForState, web } from "./site.mjs";

const axe = await fs.readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const mock = path.join(web, "node_modules", ".cache", "mock-site");
const SIZES = [
  ["a desktop", { width: 1280, height: 800 }, "light"],
  ["a phone", { width: 390, height: 844 }, "dark"],
];

let browser, site;
const records = [];
/** The traces of a comparison, as lists of bytes, for the test of the element. */
let traces;

before(async () => {
  await promisify(execFile)(process.execPath, ["build.mjs", "--mock"], { cwd: web });
  const page =
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>A race</title><link rel="icon" href="/icon.svg"><main><h1>A race</h1>` +
    `<foretoken-race plain="/plain.trace" speculative="/speculative.trace"></foretoken-race></main>` +
    `<script type="module" src="/player.js"></script></html>`;
  site = await startHost({ pages: { "/race": page }, folders: { "/": mock } });
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await site?.stop();
});

async function open(address, options) {
  const context = await browser.newContext({ reducedMotion: "no-preference", ...options });
  const { page, record } = await openPage(context);
  records.push(record);
  await page.goto(site.url + address);
  return page;
}

/** What axe finds in an element. */
async function findings(page, selector) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate((selector) => window.axe.run(selector), selector);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** What the race shows: the time of its slider, both figures, and both texts without their prompts. */
const shown = (page) =>
  page.locator("foretoken-race").evaluate(({ shadowRoot }) => ({
    at: Number(shadowRoot.querySelector("input").value),
    most: Number(shadowRoot.querySelector("input").max),
    figures: [...shadowRoot.querySelectorAll(".figures")].map((one) => one.textContent),
    texts: [...shadowRoot.querySelectorAll(".text")].map((box) =>
      [...box.querySelectorAll("span:not(.prompt)")].map((span) => span.textContent).join(""),
    ),
    done: [...shadowRoot.querySelectorAll(".lane")].map((lane) => "done" in lane.dataset),
  }));

const ended = (page) => page.locator("foretoken-race .play", { hasText: "Play again" }).waitFor();

for (const [name, viewport, colorScheme] of SIZES)
  test(`one button compares on ${name}, silently, and replays both runs`, limit, async (t) => {
    const page = await open("?policy=eagle2&max-tokens=24#race", { viewport, colorScheme });
    await waitForState(page, "ready");
    assert.equal(await page.locator("#tab-compare").getAttribute("aria-selected"), "true");
    const panel = page.locator("#panel-compare");
    await page.locator("#compare-start").waitFor();
    assert.equal(await panel.locator("button:visible").count(), 1);
    assert.equal(await page.locator("#compare-verdict").innerText(), "Not measured yet.");
    await page.evaluate(() => {
      window.told = [];
      for (const name of ["start", "round", "done", "compared"])
        document.querySelector("foretoken-widget").addEventListener(`foretoken-${name}`, () => window.told.push(name));
    });

    // Stopped by the same button.
    await page.locator("#compare-start").focus();
    await page.keyboard.press("Enter");
    await page.locator("#compare-start", { hasText: "Stop" }).waitFor();
    await page.keyboard.press("Enter");
    await page.locator("#compare-verdict", { hasText: "Stopped" }).waitFor();

    const outcome = await generated(page, () => page.keyboard.press("Enter"), "foretoken-compared");
    assert.deepEqual(await page.evaluate(() => window.told), ["compared"]);
    const [low, high] = outcome.interval;
    assert.ok(low <= outcome.ratio && outcome.ratio <= high && outcome.turns >= 6 && outcome.confidence >= 0.95);
    const line = await page.locator("#compare-verdict").innerText();
    assert.equal(line, `${outcome.verdict.line}.`);
    assert.match(line, /times (as fast|the speed), \d+\.\d\d to \d+\.\d\d, the same 24 tokens\.$/);
    assert.match(await page.locator("#compare-tokens").innerText(), /^Identical: all 24 tokens/);
    assert.match(
      await page.locator("#compare-costs svg").getAttribute("aria-label"),
      /^A step that checks 4 tokens takes 4\.0 times as long .* here; on NVIDIA H200 1\.\d to 1\.\d times\.$/,
    );

    // The replay is slowed down, says so, and both lanes end with the same text.
    assert.match(await panel.locator(".pace").innerText(), /^Shown (10|20|50) times slower\.$/);
    traces = await page.evaluate(() => {
      const { plain, speculative } = document.querySelector("foretoken-compare").comparison.traces;
      return [plain, speculative].map((bytes) => [...bytes]);
    });
    await ended(page);
    const after = await shown(page);
    assert.deepEqual(after.done, [true, true]);
    assert.equal(after.texts[0], after.texts[1]);
    assert.equal(after.texts[0], outcome.speculative.text);
    assert.match(after.figures[0], /^24 tokens, 24 passes, \d+ ms$/);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= viewport.width);
    assert.deepEqual(await findings(page, "foretoken-compare"), []);
    await usesPlayground(page);
    assert.deepEqual(await findings(page, "foretoken-playground"), []);
    // The widget shows the run that was measured.
    await page.click("#tab-run");
    assert.equal(await page.locator("#gain").innerText(), outcome.verdict.line);
    assert.ok((await page.locator("#output").textContent()).endsWith(outcome.speculative.text));
    assert.ok(await page.locator("foretoken-widget #compare").isHidden(), "the page compares in one place");
    t.diagnostic(line);
    await page.context().close();
  });

test("the race plays traces without an engine, by button, keys and slider", limit, async () => {
  const context = await browser.newContext({ viewport: SIZES[0][1] });
  for (const [i, name] of ["plain", "speculative"].entries())
    await context.route(`**/${name}.trace`, (route) => route.fulfill({ body: Buffer.from(traces[i]) }));
  const { page, record } = await openPage(context);
  records.push(record);
  await page.goto(`${site.url}race`);
  await page.locator("foretoken-race .play").waitFor();
  const start = await shown(page);
  assert.deepEqual([start.at, start.texts], [0, ["", ""]]);
  assert.match(start.figures[0], /^0 tokens, 0 passes, 0 ms$/);

  // The slider seeks: half of the time has half of the plain text.
  const seek = (ms) => page.evaluate((ms) => document.querySelector("foretoken-race").seek(ms), ms);
  await seek(start.most / 2);
  const half = await shown(page);
  const tokens = half.figures.map((figures) => Number.parseInt(figures, 10));
  assert.ok(tokens[0] > 8 && tokens[0] < 16 && tokens[1] > tokens[0], half.figures.join());
  await seek(-5);
  assert.deepEqual((await shown(page)).texts, ["", ""]);
  await seek(1e9);
  const whole = await shown(page);
  assert.deepEqual([whole.at, whole.done, whole.texts[0] === whole.texts[1]], [whole.most, [true, true], true]);
  await page.locator("foretoken-race input").focus();
  await page.keyboard.press("Home");
  assert.deepEqual((await shown(page)).texts, ["", ""]);
  const said = await page.locator("foretoken-race input").getAttribute("aria-valuetext");
  assert.match(said, /^Plain decoding: 0 tokens.*; Foretoken: 0 tokens/);

  // Without motion it goes in steps; the end is said.
  await page.locator("foretoken-race .play").press("Space");
  await page.locator("foretoken-race .play", { hasText: "Pause" }).waitFor();
  const steps = await page.evaluate(async () => {
    const input = document.querySelector("foretoken-race").shadowRoot.querySelector("input");
    const seen = new Set();
    for (const end = performance.now() + 1500; performance.now() < end; ) {
      seen.add(input.value);
      await new Promise(requestAnimationFrame);
    }
    return seen.size;
  });
  assert.ok(steps >= 2 && steps <= 6, `${steps} steps in 1.5 s`);
  await page.locator("foretoken-race .play").press("Space");
  await page.locator("foretoken-race .play", { hasText: "Play" }).waitFor();
  await seek(start.most - 1);
  await page.locator("foretoken-race .play").press("Space");
  await page.locator("foretoken-race .heard", { hasText: /^Plain decoding: 24 tokens, 24 passes/ }).waitFor();
  assert.deepEqual(await findings(page, "main"), []);

  // Other traces at other addresses; a damaged one is an error in words.
  await context.route("**/damaged.trace", (route) => route.fulfill({ body: "no trace" }));
  await page.evaluate(() => document.querySelector("foretoken-race").setAttribute("plain", "/damaged.trace"));
  await page.locator("foretoken-race .error", { hasText: /^trace: / }).waitFor();
  await page.evaluate(() => document.querySelector("foretoken-race").setAttribute("plain", "/none.trace"));
  await page.locator("foretoken-race .error", { hasText: "/none.trace: the server answered 404" }).waitFor();
  await context.close();
});

test("no page logged an error", () => {
  const errors = records.flatMap(({ errors }) => errors).filter((error) => !error.includes("404"));
  assert.deepEqual(errors, []);
});
