/**
 * Sudden ends. In Chromium and Firefox, the tab's process and the worker end while a model is downloaded, loaded and
 * used. In Chromium, the program and the cpu device get no more memory, and the GPU process that two pages share
 * crashes. What is left loads, with the same text.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { BROWSERS } from "./drivers.mjs";
import { startFaults } from "./faults.mjs";
import { spread } from "./gguf.mjs";
import { startHost } from "./host.mjs";
import { beforeWorker, dist, limit, notRun, openPage, TIMEOUT, root, startBrowser, startProfile } from "./site.mjs";

const CHUNK = 8 << 20;
const full = process.env.FORETOKEN_FULL === "1"; // more phases and sizes
const demo = path.join(root, "models", "demo", "target-q8_0.gguf");
let folder, host, faults, context, data;

before(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-kills-"));
  data = await spread(demo, 512 << 10, 5_000_000);
  const pages = { "/app/": "<!doctype html><title>a page with an engine</title>" };
  host = await startHost({ pages, folders: { "/app/foretoken/": dist } });
  faults = await startFaults();
  context = await startProfile(false, path.join(folder, "profile"));
});

after(async () => {
  await context?.close();
  await faults?.stop();
  await host?.stop();
  if (folder) await fs.rm(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** Opens a page of one's own. */
async function open(of = context) {
  const { page } = await openPage(of);
  await page.goto(`${host.url}app/`);
  return page;
}

/** Starts a load; `window.stages` records it, and `window.loaded` is its outcome. `until` is the stage to wait for. */
async function begin(page, target, until, device = "cpu") {
  await page.evaluate(
    async ([target, until, device]) => {
      const { Foretoken } = await import("./foretoken/foretoken.js");
      window.stages = [];
      const start = () => (window.worker = new Worker("./foretoken/worker.js", { type: "module" }));
      await new Promise((resolve) => {
        const onProgress = ({ stage }) => {
          window.stages.push(stage);
          if (stage === until) resolve();
          if (stage === until && window.terminates) window.worker.terminate();
        };
        window.loaded = Foretoken.load({ target, draft: null, device, worker: start, onProgress }).then(
          (engine) => ((window.engine = engine), "ready"),
          ({ code, message }) => `${code}: ${message}`,
        );
        window.loaded.then(resolve);
      });
    },
    [target, until, device],
  );
}

const outcome = (page) => page.evaluate(() => window.loaded);
const write = (page) =>
  page.evaluate(async () => (await window.engine.generate("func main() {", { max_tokens: 24, seed: 3 }).result).text);
const files = (page) => page.evaluate(async () => (await import("./foretoken/foretoken.js")).keptModels());

async function stored(page, bytes) {
  for (const end = Date.now() + TIMEOUT; ; await sleep(50)) {
    const have = (await files(page))[0]?.have ?? 0;
    if (have >= bytes) return;
    assert.ok(Date.now() < end, `${have} of ${bytes} bytes are stored`);
  }
}

/**
 * Attack: the tab or the worker killed while storing, loading or generating
 * Bound: the next load works with the same text, no lock stays, stored chunks are reused
 */
test("the tab or its worker ends while storing, loading and generating; the next load works", limit, async (t) => {
  await open(); // keeps the browser open
  const tab = async () => {
    const page = await open();
    const crash = async () => {
      const session = await context.newCDPSession(page);
      const crashed = page.waitForEvent("crash");
      session.send("Page.crash").catch(() => undefined);
      await crashed;
    };
    return { evaluate: (f, given) => page.evaluate(f, given), close: () => page.close(), crash };
  };
  await ends(t, tab);
});

/**
 * Attack: Firefox's tabs or their worker killed while storing, loading or generating
 * Bound: the next load works with the same text, no lock stays, stored chunks are reused
 */
test("in Firefox the tab or its worker ends; the next load works", { ...limit, skip: !full }, async (t) => {
  const missing = BROWSERS.firefox.missing();
  if (missing) return notRun(t, missing);
  const browser = await BROWSERS.firefox.start();
  try {
    await ends(t, () => browser.open(`${host.url}app/`));
  } finally {
    await browser.stop();
  }
});

/** Ends tabs of `open` and their workers while they store, in stages of the load, and while they generate. */
async function ends(t, open) {
  const first = await open();
  faults.files.clear(); // of the other browser
  await begin(first, `${faults.url}/want.gguf`); // no such file
  assert.match(await outcome(first), /^network: /);
  faults.files.set("/want.gguf", { data });
  await begin(first, `${faults.url}/want.gguf`);
  assert.equal(await outcome(first), "ready");
  const want = await write(first);
  await first.evaluate(async () => {
    await window.engine.dispose();
    const { keptModels, deleteKept } = await import("./foretoken/foretoken.js");
    for (let left; (left = await keptModels()).length > 0; await new Promise((go) => setTimeout(go, 50)))
      for (const { key } of left) await deleteKept(key);
  });
  await first.close();
  const kinds = {
    tab: (page) => page.crash(),
    worker: async (page) => {
      await page.evaluate(() => window.worker.terminate());
      assert.match(await outcome(page), /^(ready|crash: )/);
    },
  };
  const target = `${faults.url}/killed.gguf`;
  for (const [kind, kill] of Object.entries(kinds)) {
    await t.test(`the ${kind}, storing`, async () => {
      let open_;
      const later = new Promise((resolve) => (open_ = resolve));
      faults.files.set("/killed.gguf", { data, gate: (start) => (start < CHUNK ? undefined : later) });
      const page = await open();
      await begin(page, target, "download");
      await stored(page, CHUNK);
      await kill(page);
      faults.files.set("/killed.gguf", { data });
      open_();
      faults.requests.length = 0;
      const next = await open();
      await begin(next, target);
      assert.equal(await outcome(next), "ready");
      assert.ok(
        !faults.requests.some(({ range }) => /^bytes=0-\d{3}/.test(range ?? "")),
        `downloaded the stored chunk again: ${JSON.stringify(faults.requests)}`,
      );
      assert.equal(await write(next), want);
      await next.close();
      await page.close();
    });
    for (const stage of full ? ["target", "kernels"] : ["kernels"])
      await t.test(`the ${kind}, loading: ${stage}`, async () => {
        const page = await open();
        await page.evaluate((ends) => void (window.terminates = ends), kind === "worker");
        await begin(page, target, stage);
        await kill(page);
        const next = await open();
        await begin(next, target);
        assert.equal(await outcome(next), "ready");
        assert.equal(await write(next), want);
        await next.close();
        await page.close();
      });
    await t.test(`the ${kind}, generating`, async () => {
      const page = await open();
      await begin(page, target, undefined, "reference"); // slow enough to be killed before the text ends
      assert.equal(await outcome(page), "ready");
      await page.evaluate(async (ends) => {
        const run = window.engine.generate("func", { max_tokens: 400 });
        window.ended = run.result.then(
          () => "done",
          ({ code }) => code,
        );
        for await (const _ of run) {
          if (ends) window.worker.terminate(); // here: a call from the test could come after the text's end
          return;
        }
      }, kind === "worker");
      await kill(page);
      if (kind === "worker") assert.equal(await page.evaluate(() => window.ended), "crash");
      const next = await open();
      await begin(next, target);
      assert.equal(await outcome(next), "ready");
      assert.equal(await write(next), want);
      await next.close();
      await page.close();
    });
    await t.test(`the ${kind}: nothing stays locked`, async () => {
      const page = await open();
      const locked = async () => (await files(page)).some(({ busy }) => busy);
      for (const end = Date.now() + TIMEOUT; await locked(); await sleep(50))
        assert.ok(Date.now() < end, "a file stays locked");
      await page.evaluate(async () => {
        const { keptModels, deleteKept } = await import("./foretoken/foretoken.js");
        for (const { key } of await keptModels()) if (!(await deleteKept(key))) throw new Error("in use");
      });
      await page.close();
    });
  }
}

/** Returns a WebAssembly module whose memory has at most `pages` pages. */
function limited(module, pages) {
  const number = (at) => {
    let [value, shift, byte] = [0, 0];
    do {
      byte = module[at++];
      value += (byte & 127) * 2 ** shift;
      shift += 7;
    } while (byte & 128);
    return [value, at];
  };
  const bytes = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...bytes(value >> 7)]);
  for (let at = 8; at < module.length; ) {
    const [size, body] = number(at + 1);
    if (module[at] !== 5) {
      at = body + size;
      continue;
    }
    assert.deepEqual([...module.subarray(body, body + 2)], [1, 0], "one memory without a maximum");
    const [least] = number(body + 2);
    const section = [1, 1, ...bytes(least), ...bytes(Math.max(pages, least))];
    return Buffer.concat([
      module.subarray(0, at),
      Buffer.from([5, ...bytes(section.length), ...section]),
      module.subarray(body + size),
    ]);
  }
  throw new Error("no memory");
}

/**
 * Attack: WebAssembly memory that cannot grow
 * Bound: the engine ends with crash or out_of_memory and the reason; the next load works
 */
test("a program that gets no more memory ends with the reason, and the page loads again", limit, async (t) => {
  const program = await fs.readFile(path.join(dist, "foretoken.wasm"));
  const page = await open();
  await page.route("**/foretoken.wasm.*", (route) => route.fulfill({ status: 404 })); // compressed copies have no limit
  for (const megabytes of full ? [28, 31, 34, 37, 40] : [28, 40]) {
    let allowed = false;
    const body = limited(program, megabytes * 16);
    await page.route("**/foretoken.wasm", (route) =>
      route.fulfill({ contentType: "application/wasm", body: allowed ? program : body }),
    );
    await begin(page, `${host.url}app/foretoken/models/demo/target-q8_0.gguf`);
    let end = await outcome(page);
    if (end === "ready")
      end = await page.evaluate(() =>
        window.engine.generate("x ".repeat(100), { max_tokens: 100 }).result.then(
          () => "ready",
          ({ code, message }) => `${code}: ${message}`,
        ),
      );
    t.diagnostic(`${megabytes} MiB: ${end}`);
    assert.match(end, /^(ready$|crash: the engine stopped: .*memory|out_of_memory: )/);
    assert.ok(megabytes > 28 || end !== "ready", "the least limit is none");
    allowed = true;
    await begin(page, `${host.url}app/foretoken/models/demo/target-q8_0.gguf`);
    assert.equal(await outcome(page), "ready");
    await page.evaluate(() => window.engine.dispose());
    await page.unroute("**/foretoken.wasm");
  }
  await page.close();
});

/**
 * Attack: Cache Storage does not answer, which a tab that ends while it writes can cause in Chromium
 * Bound: the load stops waiting after two seconds and chooses kernels again
 */
test("a store of choices that never answers holds up no load", limit, async () => {
  const page = await open();
  await beforeWorker(page, "CacheStorage.prototype.open = () => new Promise(() => {});\n");
  await begin(page, `${host.url}app/foretoken/models/demo/target-q8_0.gguf`);
  assert.equal(await outcome(page), "ready");
  assert.ok((await write(page)).length > 10);
  await page.close();
});

/**
 * Attack: memory of the cpu device that the browser refuses, in full or from some size on
 * Bound: a smaller one is taken; without enough the load ends with the reason, and the next load works
 */
test("the cpu device takes the memory that the browser gives, or ends with the reason", limit, async (t) => {
  const page = await open();
  /** Loads with a memory of at most `reach` MiB, asked for at once or grown. */
  const load = async (reach, asked) => {
    const refusing = `
      const { Memory } = WebAssembly;
      WebAssembly.Memory = function (wanted) {
        if (${asked} && wanted.maximum > ${reach * 16}) throw new RangeError("could not allocate memory");
        const memory = new Memory(wanted);
        const grow = memory.grow.bind(memory);
        memory.grow = (pages) => {
          if (memory.buffer.byteLength / 65536 + pages > ${reach * 16}) throw new RangeError("failed to grow memory");
          return grow(pages);
        };
        return memory;
      };\n`;
    await beforeWorker(page, reach === undefined ? "" : refusing);
    await begin(page, `${host.url}app/foretoken/models/demo/target-q8_0.gguf`);
    const end = await outcome(page);
    const text = end === "ready" ? await write(page) : undefined;
    if (end === "ready") await page.evaluate(() => window.engine.dispose());
    await page.unroute("**/worker.js");
    return { end, text };
  };
  const want = await load();
  assert.equal(want.end, "ready");
  for (const reach of full ? [2048, 1024, 512] : [512]) assert.deepEqual(await load(reach, true), want, `${reach} MiB`);
  for (const [reach, asked] of [[256, true], [3, false], ...(full ? [[1, false], [5, false]] : [])]) {
    const { end } = await load(reach, asked);
    t.diagnostic(`${reach} MiB: ${end}`);
    assert.match(end, /^out_of_memory: /);
    assert.deepEqual(await load(), want);
  }
  await page.close();
});

/**
 * Attack: a crash of the GPU process that two pages share
 * Bound: both continue with the same text
 */
test("the GPU process that two pages share crashes: both texts continue", { ...limit, skip: !full }, async () => {
  const browser = await startBrowser(true);
  try {
    const pages = [await open(await browser.newContext()), await open(await browser.newContext())];
    const cdp = await browser.newBrowserCDPSession();
    for (const page of pages)
      await page.evaluate(async (target) => {
        const { Foretoken } = await import("./foretoken/foretoken.js");
        const onProgress = ({ stage }) => (window.lost ||= stage === "lost");
        // without a draft there are fewer kernels, which a GPU in software compiles for seconds
        window.engine = await Foretoken.load({ target, draft: null, device: "webgpu", onProgress });
      }, `${host.url}app/foretoken/models/demo/target-q8_0.gguf`);
    const want = await Promise.all(pages.map(write));
    assert.ok(want[0].length > 10);
    const running = pages.map((page) =>
      page.evaluate(async () => {
        let text = "";
        // Until the crash has been noticed, in a request or while the session is idle.
        for (const end = Date.now() + 240_000; Date.now() < end; ) {
          const run = window.engine.generate("func main() {", { max_tokens: 24, seed: 3 });
          window.begun = true;
          const { text: now } = await run.result;
          text ||= now;
          if (now !== text) throw new Error(`${now} instead of ${text}`);
          if (window.lost) return text;
        }
        throw new Error("the crash was not noticed");
      }),
    );
    await Promise.all(pages.map((page) => page.waitForFunction(() => window.begun)));
    await cdp.send("Browser.crashGpuProcess");
    assert.deepEqual(await Promise.all(running), want);
    assert.deepEqual(await Promise.all(pages.map(write)), want);
  } finally {
    await browser.close();
  }
});
