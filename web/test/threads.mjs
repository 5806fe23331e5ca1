/**
 * Threads of the cpu device in Chromium, in a page that is cross-origin isolated: one that is terminated or fails in
 * mid-reply, and pages behind others. Lines before the worker's script record the threads and can end one.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, limit, openPage, startBrowser } from "./site.mjs";

/**
 * Records the threads that the engine's worker starts. When the engine next gives way to events after the round `at`,
 * it calls `act`, and the engine goes on after `pause` milliseconds.
 */
const SCRIPT = `{
  const recorded = (globalThis.recorded = { threads: [], rounds: 0, at: Infinity, act: () => undefined, pause: 0 });
  globalThis.Worker = class extends globalThis.Worker {
    constructor(...given) {
      super(...given);
      recorded.threads.push(this);
    }
  };
  globalThis.MessageChannel = class extends globalThis.MessageChannel {
    constructor() {
      super();
      const turn = this.port2.postMessage.bind(this.port2);
      this.port2.postMessage = (message) => {
        if (recorded.rounds < recorded.at) return turn(message);
        recorded.at = Infinity;
        recorded.act(recorded.threads.at(-1));
        setTimeout(turn, recorded.pause, message);
      };
    }
  };
  const post = globalThis.postMessage;
  globalThis.postMessage = (message, ...rest) => {
    post(message, ...rest);
    if (message.type === "update") recorded.rounds += message.json.filter((one) => one.includes('"round"')).length;
  };
}`;

let host, browser;

before(async () => {
  const worker = SCRIPT + (await fs.readFile(path.join(dist, "worker.js"), "utf8"));
  host = await startHost({
    pages: { "/": "<!doctype html><title>a page with an engine</title>", "/foretoken/worker.js": worker },
    folders: { "/foretoken/": dist },
    isolated: true,
  });
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

/** Opens a page with the built-in pair; of two threads `started` start, under a policy of the worker's script. */
async function open(started = 2, policy = "") {
  const { page, record } = await openPage(await browser.newContext());
  if (policy)
    await page.route("**/worker.js", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, headers: { ...response.headers(), "Content-Security-Policy": policy } });
    });
  await page.goto(host.url);
  const info = await page.evaluate(async () => {
    const { Foretoken } = await import("./foretoken/foretoken.js");
    window.told = [];
    const onProgress = ({ stage, note }) => stage === "lost" && window.told.push(note);
    window.engine = await Foretoken.load({ device: "cpu", threads: 2, device_timeout: 5, onProgress });
    return window.engine.info;
  });
  assert.deepEqual([info.device.backend, info.device.threads, info.device.note], ["cpu", started, ""]);
  const worker = page.workers().find((one) => one.url().endsWith("worker.js"));
  return { page, worker, errors: record.errors };
}

/** A reply of hundreds of milliseconds: the engine gives way to events every 50. */
const REQUEST = { policy: "chain", temperature: 0.8, seed: 3, max_tokens: 200 };

const generate = (page) =>
  page.evaluate(async (request) => {
    try {
      const { token_ids, stats } = await window.engine.generate("func main() {\n", request).result;
      return { tokens: token_ids, recoveries: stats.recoveries ?? 0 };
    } catch ({ code, message }) {
      return { code, message };
    }
  }, REQUEST);

for (const [how, pause, losses, setAct] of [
  // Chromium ends a busy thread two seconds later without a message to its parent.
  ["is terminated in mid-reply is not missed", 5000, [], () => void (recorded.act = (thread) => thread.terminate())],
  [
    "fails in mid-reply: the device reopens",
    0,
    [/RuntimeError: unreachable/],
    () =>
      void (recorded.act = (thread) =>
        thread.dispatchEvent(new MessageEvent("message", { data: "RuntimeError: unreachable" }))),
  ],
])
  test(`a thread that ${how}, and the tokens are the same`, limit, async (t) => {
    const { page, worker, errors } = await open();
    const want = await generate(page);
    assert.deepEqual([want.tokens?.length, want.recoveries], [REQUEST.max_tokens, 0], JSON.stringify(want));
    assert.equal(await worker.evaluate(() => recorded.threads.length), 1, "threads besides the worker itself");

    await worker.evaluate(setAct);
    await worker.evaluate((pause) => void Object.assign(recorded, { at: recorded.rounds + 3, pause }), pause);
    const begin = Date.now();
    const got = await generate(page);
    t.diagnostic(`ended after ${Date.now() - begin} ms`);
    assert.deepEqual([got.tokens, got.recoveries], [want.tokens, losses.length], JSON.stringify(got));
    assert.equal(await worker.evaluate(() => recorded.threads.length), 1 + losses.length, "threads that started");
    const told = await page.evaluate(() => window.told);
    assert.equal(told.length, losses.length, `losses: ${told}`);
    for (const [i, reason] of losses.entries()) assert.match(told[i], reason);

    assert.deepEqual(await generate(page), want, "the next reply");
    assert.deepEqual(errors, []);
    await page.context().close();
  });

/** Loads a model in a page of `own`, with the library from `base`. */
async function loads(own, base, options) {
  const { page } = await openPage(await browser.newContext());
  await page.goto(own.url);
  const said = await page.evaluate(
    async ([base, options]) => {
      const { Foretoken } = await import(`${base}foretoken.js`);
      return Foretoken.load({ device: "cpu", threads: 2, context: 128, cache: "off", ...options }).then(
        ({ info }) => `${crossOriginIsolated}: ${info.device.threads} threads, ${info.target.name}`,
        ({ code, message }) => `${code}: ${message}`,
      );
    },
    [base, options],
  );
  await page.context().close();
  return said;
}

test("isolated by either policy, a page loads from other origins, or the error names the header", limit, async () => {
  const hosts = [];
  const serve = async (options) => hosts[hosts.push(await startHost(options)) - 1];
  const far = await serve({ folders: { "/": dist }, cors: true });
  const closed = await serve({ folders: { "/": dist } });
  const model = ({ url }) => ({ target: `${url}models/demo/draft-q8_0.gguf` });
  for (const policy of ["require-corp", "credentialless"]) {
    const isolating = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": policy };
    const page = { pages: { "/": "<!doctype html><title>a page</title>" }, folders: { "/lib/": dist } };
    const own = await serve({ ...page, headers: isolating });
    const bare = await serve({ ...page, headers: (path) => (path === "/lib/worker.js" ? {} : isolating) });
    const ready = "true: 2 threads, Go code 0.6M";
    assert.equal(await loads(own, `${own.url}lib/`, model(far)), ready);
    assert.equal(await loads(own, far.url, model(far)), ready);
    assert.match(await loads(own, `${own.url}lib/`, model(closed)), /^network: .*no Access-Control-Allow-Origin/);
    const unset = await loads(bare, `${bare.url}lib/`, model(far));
    assert.match(unset, /^crash: .*Cross-Origin-Embedder-Policy, the script needs that header too/);
    const elsewhere = { ...model(far), worker: `${closed.url}worker.js` };
    assert.match(await loads(own, `${own.url}lib/`, elsewhere), /^crash: .*from http.*Access-Control-Allow-Origin/);
  }
  for (const one of hosts) await one.stop();
});

test("where a policy refuses threads, one thread decodes the same", limit, async () => {
  const { page, errors } = await open();
  const want = await generate(page);
  await page.context().close();
  const policy = "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'";
  const alone = await open(1, policy);
  assert.deepEqual(await generate(alone.page), want);
  assert.deepEqual(errors, []);
  assert.ok(
    alone.errors.every((error) => /Content Security Policy/.test(error)),
    alone.errors.join("\n"),
  );
  await alone.page.context().close();
});

test("a page behind another, and one that is blocked, decode on with their threads", limit, async () => {
  const { page, errors } = await open();
  const want = await generate(page);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Emulation.setFocusEmulationEnabled", { enabled: false });
  const front = await page.context().newPage();
  await front.goto("about:blank");
  await front.bringToFront();
  assert.deepEqual(await generate(page), want, "behind another page");
  await front.close();
  const held = generate(page);
  await page.evaluate(() => {
    for (const end = Date.now() + 500; Date.now() < end; );
  });
  assert.deepEqual(await held, want, "blocked");
  assert.deepEqual(errors, []);
  await page.context().close();
});
