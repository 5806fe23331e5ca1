/**
 * Lost graphics devices in Chromium: the worker's GPUDevice is destroyed under the page, while it loads, between requests, in
 * a prefill, amid rounds, and without end; and the browser's graphics process crashes. The worker's script is served with a
 * few lines before it, which keep the devices it opens, destroy them at a submit of a given number, and hold a readback until
 * its device is lost.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import path from "node:path";
import { limit, openPage, root, startBrowser, startServer, waitForState } from "./site.mjs";


let browser, server;

before(async () => {
  server = await startServer(path.join(root, "build", "testmodels"));
  browser = await startBrowser(true);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** What goes before the worker's script. Of the first device's buffers, one is where it is lost while the models are loaded; -1: none. */
const script = (lostAt) => `
const kept = (globalThis.kept = { devices: [], submits: 0, buffers: 0, at: () => false, next: null, hold: 0, request: null });
kept.held = new Promise((resolve) => (kept.isHeld = resolve));
addEventListener("message", ({ data }) => {
  if (data.op === "generate") kept.request = data.id;
  if (data.op !== "generate" || !kept.next) return;
  const from = kept.submits + kept.next[0], to = from + kept.next[1];
  kept.at = (n) => n >= from && n < to;
  kept.next = null;
});
const request = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...args) {
  const device = await request.apply(this, args);
  kept.devices.push(device);
  return device;
};
const make = GPUDevice.prototype.createBuffer;
GPUDevice.prototype.createBuffer = function (...args) {
  if (kept.buffers++ === ${lostAt}) this.destroy();
  return make.apply(this, args);
};
const submit = GPUQueue.prototype.submit;
GPUQueue.prototype.submit = function (...args) {
  if (kept.at(kept.submits++)) kept.devices.at(-1).destroy();
  return submit.apply(this, args);
};
const post = globalThis.postMessage;
globalThis.postMessage = function (message, ...rest) {
  if (kept.hold > 0 && message.type === "update" && message.id === kept.request && --kept.hold === 0) kept.holds = true;
  return post.call(this, message, ...rest);
};
const map = GPUBuffer.prototype.mapAsync;
GPUBuffer.prototype.mapAsync = async function (...args) {
  if (kept.holds) {
    kept.holds = false;
    kept.isHeld();
    await kept.devices.at(-1).lost;
  }
  return map.apply(this, args);
};
`;

/** The page with its models loaded, its worker, and a generation of it, which tells what the page said meanwhile. */
async function openWidget(browser, lostAt) {
  const { page, record } = await openPage(await browser.newContext());
  await page.route("**/worker.js", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: script(lostAt) + (await response.text()) });
  });
  await page.goto(server.url + "?temperature=0.8&seed=7&max-tokens=32#completion");
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", "the models are loaded");
  await page.evaluate(() => {
    const status = document.querySelector("foretoken-widget").shadowRoot.querySelector("#status");
    window.said = [];
    new MutationObserver(() => window.said.push(status.textContent)).observe(status, { childList: true, characterData: true, subtree: true });
  });
  const generate = () =>
    page.evaluate(async () => {
      window.said = [];
      try {
        const { text, stats } = await document.querySelector("foretoken-widget").generate();
        return { text, recoveries: stats.recoveries ?? 0, took: stats.recovery_ms ?? 0, said: window.said, status: window.said.at(-1) };
      } catch (error) {
        return { code: error.code, message: error.message };
      }
    });
  const worker = page.workers()[0];
  const opened = () => worker.evaluate(() => kept.devices.length);
  return { page, record, worker, generate, opened };
}

test("a lost device: the same text goes on, and after three losses in a row it stops with a reason", limit, async (t) => {
  const { page, record, worker, generate, opened } = await openWidget(browser, 5);
  assert.equal(await opened(), 2, "devices opened to load");
  /** Has the device lost at so many submits of the next request, from one on; null: at none from now on. */
  const doom = (at) => worker.evaluate((at) => ((kept.next = at), void (kept.at = () => false)), at);

  const want = await generate();
  assert.equal(want.recoveries, 0, JSON.stringify(want));
  assert.ok(want.text.length > 20, want.text);
  let devices = await opened();
  let recoveries = 0;
  for (const [where, at] of [["prefill", [0, 1]], ["round", [9, 1]]]) {
    await doom(at);
    const got = await generate();
    assert.equal(got.text, want.text, `${where}: ${JSON.stringify(got)}`);
    assert.equal(await opened(), (devices += at[1]), `${where}: devices opened`);
    assert.ok(got.said.some((line) => line.startsWith("The GPU was lost; loading the models again")), `the page said ${got.said}`);
    assert.ok(!/lost/.test(got.status), got.status);
    recoveries += got.recoveries;
    t.diagnostic(`${where}: the same text after ${Math.round(got.took)} ms`);
  }
  await worker.evaluate(() => kept.devices.at(-1).destroy());
  const idle = await generate();
  assert.equal(idle.text, want.text, `idle: ${JSON.stringify(idle)}`);
  recoveries += idle.recoveries; // one, where the request began before the browser had told of the loss

  devices = await opened();
  await doom([9, 1e9]);
  const stopped = await generate();
  assert.equal(stopped.code, "device_lost", JSON.stringify(stopped));
  assert.match(stopped.message, /lost 3 times in a row/);
  assert.equal(await opened(), devices + 2, "devices opened before it was left alone");
  await doom(null);
  const next = await generate();
  assert.equal(next.text, want.text, "the next request");
  recoveries += next.recoveries;
  const stats = await page.evaluate(() => document.querySelector("foretoken-widget").engine.stats());
  assert.equal(stats.recoveries, recoveries, JSON.stringify(stats));
  assert.deepEqual(record.errors, []);
});

test("the graphics process crashes: the same text goes on in another one", limit, async (t) => {
  // A browser of its own: after some crashes Chromium does without its graphics process for good.
  const own = await startBrowser(true);
  try {
    const { record, worker, generate, opened } = await openWidget(own, -1);
    const cdp = await own.newBrowserCDPSession();
    const processes = async () => (await cdp.send("SystemInfo.getProcessInfo")).processInfo.filter(({ type }) => type === "GPU").map(({ id }) => id);
    const want = await generate();
    assert.equal(want.recoveries, 0, JSON.stringify(want));
    assert.ok(want.text.length > 20, want.text);
    assert.equal(await opened(), 1, "devices opened to load");
    const before = await processes();
    assert.equal(before.length, 1, `graphics processes: ${before}`);

    // After two rounds the request waits for a readback until the device is lost, or a fast machine would be done before the crash.
    await worker.evaluate(() => void (kept.hold = 2));
    const generating = generate();
    await Promise.race([worker.evaluate(() => kept.held), generating]);
    await cdp.send("Browser.crashGpuProcess");
    const got = await generating;
    assert.equal(got.text, want.text, JSON.stringify(got));
    assert.equal(got.recoveries, 1, JSON.stringify(got));
    assert.ok(got.said.some((line) => line.startsWith("The GPU was lost; loading the models again")), `the page said ${got.said}`);
    const reason = await worker.evaluate(async () => (await kept.devices[0].lost).reason);
    assert.equal(reason, "unknown", "the device was destroyed, not lost in a crash");
    const after = await processes();
    assert.ok(after.length === 1 && after[0] !== before[0], `graphics processes: ${before}, after the crash ${after}`);
    t.diagnostic(`the same text after ${Math.round(got.took)} ms`);

    const next = await generate();
    assert.equal(next.text, want.text, `the next request: ${JSON.stringify(next)}`);
    assert.equal(next.recoveries, 0, JSON.stringify(next));
    assert.equal(await opened(), 2, "devices opened in all");
    assert.deepEqual(record.errors, []);
  } finally {
    await own.close();
  }
});
