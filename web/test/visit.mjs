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
import { dist, generated, limit, openPage, startProfile, waitForState } from "./site.mjs";

const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };

let host;
const folders = [];

before(async () => {
  host = await startHost({ folders: { "/": dist }, isolated: true });
});

after(async () => {
  await host?.stop();
  for (const folder of folders) await fs.rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** Opens an address of the site in a new profile, runs `work` on the page, and checks its console. */
async function visit(viewport, work, { webgpu = false, address = "" } = {}) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-visit-"));
  folders.push(folder);
  const context = await startProfile(webgpu, folder, { viewport });
  try {
    const { page, record } = await openPage(context);
    await page.addInitScript(() => {
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
      }).observe({ type: "layout-shift", buffered: true });
    });
    await page.goto(host.url + address);
    assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
    await work(page);
    assert.deepEqual(record.errors, []);
    assert.deepEqual(
      record.requests.filter((url) => !url.startsWith(host.url) && !/^(blob|data):/.test(url)),
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
  test(`the first view on ${name}: what it is, where it runs, one big button, and the verdict`, limit, async (t) => {
    const first = async (page) => {
      assert.deepEqual(await page.locator(".answers dt").allInnerTexts(), [
        "What is it?",
        "Is it private?",
        "Is it faster here?",
      ]);
      for (const selector of ["h1", ".answers", "#runs-on", "#prompt", "#generate", "#compare", "#status"])
        await inView(page, selector);
      assert.match(await text(page, "#runs-on"), /unning on (\d+ CPU threads?|this machine's GPU)/);
      const heights = await page
        .locator("foretoken-widget button:visible")
        .evaluateAll((all) => all.map((one) => [one.id, one.offsetHeight]));
      const [big, ...rest] = heights.sort(([, a], [, b]) => b - a);
      assert.equal(big[0], "generate");
      assert.ok(big[1] >= 44 && rest.every(([, height]) => height < big[1]), JSON.stringify(heights));
      assert.equal(await page.locator("details.settings").getAttribute("open"), null, "the settings are open");

      await generated(page, () => page.click("#generate"));
      assert.match(await text(page, "#gain"), /^64 tokens in \d+ steps/);
      await page.evaluate(() => {
        const widget = document.querySelector("foretoken-widget");
        window.compared = new Promise((resolve) => widget.addEventListener("foretoken-compared", () => resolve()));
      });
      await page.click("#compare");
      await page.evaluate(() => window.compared);
      const line = await text(page, "#status");
      assert.match(line, /the same 64 tokens/);
      for (const selector of ["#status", "#faster"]) await inView(page, selector);
      for (const selector of ["#gain", ".comparison .speed"]) assert.equal(await text(page, selector), line);
      if (viewport === DESKTOP) await inView(page, ".comparison .speed");
      const [work, panel] = [await box(page, ".work"), await box(page, ".panel")];
      if (viewport === PHONE) assert.ok(panel.y - (work.y + work.height) <= 20, "figures are not under the text");
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= viewport.width);
      const shift = await page.evaluate(() => window.shift);
      assert.ok(shift <= 0.02, `the layout shifted by ${shift}`);
      t.diagnostic(`${await text(page, "#runs-on")}: ${line}; layout shift ${shift.toFixed(4)}`);
    };
    await visit(viewport, first, { webgpu });
  });
