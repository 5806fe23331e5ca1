/**
 * Lost GPU devices in Chromium: the test destroys the worker's GPUDevice during the load, between requests, in a
 * prefill, in rounds, and repeatedly; and crashes the browser's GPU process. Lines before the worker's script record
 * the devices, destroy them at a given submit, and delay a readback until its device is lost.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import path from "node:path";
import { beforeWorker, limit, openPage, root, startBrowser, startServer, waitForState } from "./site.mjs";

const full = process.env.FORETOKEN_FULL === "1";

let browser, server;

before(async () => {
  server = await startServer(path.join(root, "models", "demo"));
  browser = await startBrowser(true);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** The lines before the worker's script. `buffer` is the buffer of the first device that triggers a loss; -1: none. */
const script = (lostAt) => `
const recorded = { devices: [], submits: 0, buffers: 0, at: () => false, next: null, hold: 0, request: null };
globalThis.recorded = recorded;
recorded.held = new Promise((resolve) => (recorded.isHeld = resolve));
addEventListener("message", ({ data }) => {
  if (data.op === "generate") recorded.request = data.id;
  if (data.op !== "generate" || !recorded.next) return;
  const from = recorded.submits + recorded.next[0], to = from + recorded.next[1];
  recorded.at = (n) => n >= from && n < to;
  recorded.next = null;
});
const request = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...args) {
  const device = await request.apply(this, args);
  recorded.devices.push(device);
  return device;
};
const make = GPUDevice.prototype.createBuffer;
GPUDevice.prototype.createBuffer = function (...args) {
  if (recorded.buffers++ === ${lostAt}) this.destroy();
  return make.apply(this, args);
};
const submit = GPUQueue.prototype.submit;
GPUQueue.prototype.submit = function (...args) {
  if (recorded.at(recorded.submits++)) recorded.devices.at(-1).destroy();
  return submit.apply(this, args);
};
const post = globalThis.postMessage;
globalThis.postMessage = function (message, ...rest) {
  const ours = message.type === "update" && message.id === recorded.request;
  if (recorded.hold > 0 && ours && (recorded.hold -= message.json.length) <= 0) recorded.holds = true;
  return post.call(this, message, ...rest);
};
const map = GPUBuffer.prototype.mapAsync;
GPUBuffer.prototype.mapAsync = async function (...args) {
  if (recorded.holds) {
    recorded.holds = false;
    recorded.isHeld();
    await recorded.devices.at(-1).lost;
  }
  return map.apply(this, args);
};
`;

/**
 * Opens the page with loaded models, by default the built-in pair; returns its worker and a function that generates and
 * records the status lines.
 */
async function openWidget(browser, lostAt, models = "") {
  const { page, record } = await openPage(await browser.newContext());
  await beforeWorker(page, script(lostAt));
  await page.goto(server.url + `?device=webgpu&temperature=0.8&seed=7&max-tokens=32${models}#run`);
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", "the models are loaded");
  await page.evaluate(() => {
    const status = document.querySelector("foretoken-widget").shadowRoot.querySelector("#status");
    window.said = [];
    new MutationObserver(() => window.said.push(status.textContent)).observe(status, {
      childList: true,
      characterData: true,
      subtree: true,
    });
  });
  const generate = () =>
    page.evaluate(async () => {
      window.said = [];
      try {
        const { text, stats } = await document.querySelector("foretoken-widget").generate();
        return {
          text,
          recoveries: stats.recoveries ?? 0,
          took: stats.recovery_ms ?? 0,
          said: window.said,
          status: window.said.at(-1),
        };
      } catch (error) {
        return { code: error.code, message: error.message };
      }
    });
  const worker = page.workers()[0];
  const opened = () => worker.evaluate(() => recorded.devices.length);
  return { page, record, worker, generate, opened };
}

/**
 * Attack: a WebGPU device destroyed in a prefill, in a round, idle, and again and again
 * Bound: the same text; three losses in a row end the request with the reason, and the next one works
 */
test(
  "a lost device: the text continues unchanged, and after three losses in a row it stops with a reason",
  limit,
  async (t) => {
    const target = "&target=models/demo/target-q8_0.gguf";
    const { page, record, worker, generate, opened } = await openWidget(browser, 5, target);
    assert.equal(await opened(), 2, "devices opened to load");
    /** Loses the device at these submits of the next request, counted from one; null: never. */
    const doom = (at) => worker.evaluate((at) => ((recorded.next = at), void (recorded.at = () => false)), at);

    const want = await generate();
    assert.equal(want.recoveries, 0, JSON.stringify(want));
    assert.ok(want.text.length > 20, want.text);
    let devices = await opened();
    let recoveries = 0;
    // Natively a prefill and an idle device are lost each time; FORETOKEN_FULL=1 loses them here too.
    for (const [where, at] of [
      ...(full ? [["prefill", [0, 1]]] : []),
      ["round", [9, 1]],
    ]) {
      await doom(at);
      const got = await generate();
      assert.equal(got.text, want.text, `${where}: ${JSON.stringify(got)}`);
      assert.equal(await opened(), (devices += at[1]), `${where}: devices opened`);
      assert.ok(
        got.said.some((line) => line.startsWith("The device was lost; reloading the models")),
        `the page said ${got.said}`,
      );
      assert.ok(!/lost/.test(got.status), got.status);
      recoveries += got.recoveries;
      t.diagnostic(`${where}: the same text after ${Math.round(got.took)} ms`);
    }
    if (full) {
      await worker.evaluate(() => recorded.devices.at(-1).destroy());
      const idle = await generate();
      assert.equal(idle.text, want.text, `idle: ${JSON.stringify(idle)}`);
      recoveries += idle.recoveries; // one if the request started before the browser reported the loss
    }

    devices = await opened();
    await doom([9, 1e9]);
    const stopped = await generate();
    assert.equal(stopped.code, "device_lost", JSON.stringify(stopped));
    assert.match(stopped.message, /lost 3 times in a row/);
    assert.equal(await opened(), devices + 2, "devices opened before the losses ended");
    await doom(null);
    const next = await generate();
    assert.equal(next.text, want.text, "the next request");
    recoveries += next.recoveries;
    const stats = await page.evaluate(() => document.querySelector("foretoken-widget").engine.stats());
    assert.equal(stats.recoveries, recoveries, JSON.stringify(stats));
    assert.deepEqual(record.errors, []);
  },
);

/**
 * Attack: a GPU process that crashes in a round
 * Bound: another one is opened, and the same text goes on
 */
test("the GPU process crashes: the text continues unchanged in another one", limit, async (t) => {
  // A separate browser, because after some crashes Chromium disables its GPU process.
  const own = await startBrowser(true);
  try {
    const { record, worker, generate, opened } = await openWidget(own, -1);
    const cdp = await own.newBrowserCDPSession();
    const processes = async () =>
      (await cdp.send("SystemInfo.getProcessInfo")).processInfo
        .filter(({ type }) => type === "GPU")
        .map(({ id }) => id);
    const want = await generate();
    assert.equal(want.recoveries, 0, JSON.stringify(want));
    assert.ok(want.text.length > 20, want.text);
    assert.equal(await opened(), 1, "devices opened to load");
    const before = await processes();
    assert.equal(before.length, 1, `GPU processes: ${before}`);

    // After two rounds a readback waits until the device is lost, because a fast machine would finish before the crash.
    await worker.evaluate(() => void (recorded.hold = 2));
    const generating = generate();
    await Promise.race([worker.evaluate(() => recorded.held), generating]);
    await cdp.send("Browser.crashGpuProcess");
    const got = await generating;
    assert.equal(got.text, want.text, JSON.stringify(got));
    assert.equal(got.recoveries, 1, JSON.stringify(got));
    assert.ok(
      got.said.some((line) => line.startsWith("The device was lost; reloading the models")),
      `the page said ${got.said}`,
    );
    const reason = await worker.evaluate(async () => (await recorded.devices[0].lost).reason);
    assert.equal(reason, "unknown", "the device was destroyed, not lost in a crash");
    const after = await processes();
    assert.ok(after.length === 1 && after[0] !== before[0], `GPU processes: ${before}, after the crash ${after}`);
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
