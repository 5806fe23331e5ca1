/**
 * Soak test in Chromium: conversations with the built-in pair, and generations that stop at random moments. With
 * FORETOKEN_FULL=1 the end-to-end tests run a few seconds of it. FORETOKEN_SOAK=1 runs a thousand turns, two hundred
 * thousand tokens and a thousand aborts; another number runs that share of them.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, limit, openPage, startBrowser, web } from "./site.mjs";

const soak = Number(process.env.FORETOKEN_SOAK ?? 0);
const much = (short, long) => (soak > 0 ? Math.ceil(soak * long) : short);
const device = "webgpu";
const MiB = 2 ** 20;

let host, base, browser;

before(async () => {
  const pages = {
    "/app/": "<!doctype html><title>a page with an engine</title>",
    "/app/worker-probe.js": await fs.readFile(path.join(web, "test", "worker-probe.js"), "utf8"),
    "/app/worker.js": 'import "./worker-probe.js"; import "./foretoken/worker.js";',
  };
  host = await startHost({ pages, folders: { "/app/foretoken/": dist } });
  base = `${host.url}app/`;
  browser = await startBrowser(true, ["--js-flags=--expose-gc"]);
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

/** Opens a page with the built-in pair in a worker with worker-probe.js; `engine` is a global of the page. */
async function openEngine(context) {
  const profile = await browser.newContext();
  const { page, record } = await openPage(profile);
  await page.goto(base);
  const load = async (options) => {
    const { Foretoken } = await import("./foretoken/foretoken.js");
    window.engine = await Foretoken.load({ ...options, worker: "worker.js" });
  };
  await page.evaluate(load, { device, context });
  const worker = page.workers().find((one) => one.url().endsWith("worker.js"));
  return { profile, page, worker, errors: record.errors };
}

/** Returns resident bytes and open descriptors of Chromium's renderers and GPU process; undefined without /proc. */
async function processes() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  let [rss, files] = [0, 0];
  for (const { type, id } of processInfo) {
    if (type !== "renderer" && type !== "GPU") continue;
    const status = await fs.readFile(`/proc/${id}/status`, "utf8").catch(() => "");
    rss += 1024 * Number(/VmRSS:\s*(\d+)/.exec(status)?.[1] ?? 0);
    files += (await fs.readdir(`/proc/${id}/fd`).catch(() => [])).length;
  }
  return { rss, files };
}

/** Returns the memory and objects of the page, its worker and Chromium's processes. */
async function look({ page, worker }, cdp) {
  await cdp.send("HeapProfiler.collectGarbage");
  const { usedSize } = await cdp.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await cdp.send("Memory.getDOMCounters");
  return {
    ...(await worker.evaluate(() => globalThis.seen.sample())),
    heap: usedSize,
    ...(await workerHeap(cdp)),
    nodes,
    listeners: jsEventListeners,
    ...(await processes()),
  };
}

/** Returns the size of the worker's JavaScript heap, which is separate from the page's. */
async function workerHeap(cdp) {
  const answers = new Map();
  const receive = ({ message }) => {
    const { id, result } = JSON.parse(message);
    answers.get(id)?.(result);
  };
  const attached = new Promise((resolve) => cdp.once("Target.attachedToTarget", resolve));
  cdp.on("Target.receivedMessageFromTarget", receive);
  await cdp.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
  const { sessionId } = await attached;
  const ask = (id, method) =>
    new Promise((resolve, reject) => {
      answers.set(id, resolve);
      cdp.send("Target.sendMessageToTarget", { sessionId, message: JSON.stringify({ id, method }) }).catch(reject);
    });
  await ask(1, "HeapProfiler.collectGarbage");
  const { usedSize } = await ask(2, "Runtime.getHeapUsage");
  await cdp.send("Target.setAutoAttach", { autoAttach: false, waitForDebuggerOnStart: false, flatten: false });
  cdp.off("Target.receivedMessageFromTarget", receive);
  return { workerHeap: usedSize };
}

/** Runs a conversation in the page, and compares every eleventh answer with plain decoding. */
async function converse({ number, each, long, context }) {
  const template =
    "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}" +
    "{% if add_generation_prompt %}// assistant: {% endif %}";
  const ways = [
    { policy: "auto" },
    { policy: "eagle2", depth: 3, top_k: 4, nodes: 12 },
    { policy: "none", temperature: 0.8 },
    { policy: "ngram" },
    { policy: "auto", temperature: 0.8 },
    { policy: "chain", depth: 3, temperature: 0.8 },
    { policy: "auto" },
    { policy: "none" },
    { policy: "none", json_object: true },
    { policy: "auto", temperature: 1 },
  ];
  const chat = await window.engine.chat({ template, system: "a Go program" });
  const out = { turns: 0, tokens: 0, drops: 0, compared: 0, wrong: [] };
  let unseen = 0;
  for (let i = 0; i < each; i++) {
    const r = { ...ways[i % ways.length], seed: number * each + i + 1, max_tokens: [12, 16, 40, 24, 8, 30][i % 6] };
    if (i % 6 === 2 || (long && i % 3 !== 0)) r.max_tokens = context - 80; // an answer that nearly fills the context
    const run = chat.send(
      ["func main() {", "a loop over the lines of a file", "type T struct", "return the first error", "// é世"][i % 5],
      r,
    );
    let text = "";
    for await (const round of run) text += round.text;
    const reply = await run.result;
    const { result } = reply;
    out.turns++;
    out.tokens += result.token_ids.length;
    if (reply.dropped > 0) out.drops++;
    const shown = chat.messages;
    // A turn is a question and its answer; the context drops complete turns.
    if (chat.unseen !== unseen + 2 * reply.dropped || shown.length !== 2 * i + 3)
      out.wrong.push(
        `turn ${i}: ${chat.unseen} messages unseen after ${unseen}, ${reply.dropped} turns dropped, ` +
        `${shown.length} messages`,
      );
    if (result.stats.prompt_tokens + result.token_ids.length > context)
      out.wrong.push(
        `turn ${i}: ${result.stats.prompt_tokens} and ${result.token_ids.length} tokens in a context of ${context}`,
      );
    if (text !== result.text || shown.at(-1).content !== text)
      out.wrong.push(`turn ${i}: streamed ${JSON.stringify(text)}, in all ${JSON.stringify(result.text)}`);
    unseen = chat.unseen;
    if ((number * each + i) % 11 === 3) {
      const visible = [shown[0], ...shown.slice(1 + unseen, -1)];
      const { policy, depth, top_k, nodes, json_object, ...same } = r;
      const plain = await window.engine.chat.completions.create({
        messages: visible,
        chat_template: template,
        temperature: 0,
        ...same,
        ...(json_object ? { response_format: { type: "json_object" } } : {}),
        // The API's JSON is compact unless the request says otherwise; the conversation's is not.
        foretoken: { policy: "none", no_reuse: true, ...(json_object ? { json_compact: false } : {}) },
      });
      if (plain.choices[0].message.content !== text)
        out.wrong.push(
          `turn ${i}, ${policy}: ${JSON.stringify(text)}, plain decoding gives ` +
          `${JSON.stringify(plain.choices[0].message.content)}`,
        );
      out.compared++;
    }
  }
  return out;
}

test(
  "memory, buffers and handles stay as they are from turn to turn",
  { timeout: (soak ? 3 : 1) * limit.timeout },
  async (t) => {
    const context = soak ? 256 : 128; // short enough to overflow, in time, on a GPU in software
    const [turns, tokens, each] = [
      much(12, 1000),
      much(0, 200_000),
      soak ? 40 : 4,
    ];
    const engine = await openEngine(context);
    const cdp = await engine.page.context().newCDPSession(engine.page);
    const lives = [];
    const all = { turns: 0, tokens: 0, drops: 0, compared: 0 };
    const begun = Date.now();
    const say = (life) =>
      (soak ? console.log : (text) => t.diagnostic(text))(
        `${((Date.now() - begun) / 1000).toFixed(0)} s: ${all.turns} turns, ${all.tokens} tokens: ${describe(life)}`,
      );
    for (let number = 0; all.turns < turns || all.tokens < tokens; number++) {
      const { wrong, ...done } = await engine.page.evaluate(converse, { number, each, long: soak, context });
      assert.deepEqual(wrong, [], `conversation ${number}`);
      for (const key in all) all[key] += done[key];
      lives.push(await look(engine, cdp));
      if (soak || number === 0) say(lives.at(-1));
    }
    say(lives.at(-1));
    t.diagnostic(
      `${all.turns} turns, ${all.tokens} tokens; the context overflowed ${all.drops} times, ${all.compared} ` +
      "answers were compared with plain decoding",
    );
    assert.ok(all.drops > 0 && all.compared > 0, JSON.stringify(all));
    const quarter = Math.max(Math.floor(lives.length / 4), 1);
    const [early, late] = [lives.slice(quarter, 2 * quarter), lives.slice(-quarter)];
    const median = (of, key) => of.map((life) => life[key]).sort((a, b) => a - b)[Math.floor(of.length / 2)];
    // WebAssembly memory never shrinks, so a single step of growth is allowed. Go releases values at its next garbage
    // collection. A new session may still create kernels for drafting.
    const device = soak ? { buffers: 0, bytes: 0, made: 0 } : { buffers: 16, bytes: 4 * MiB, made: 256 };
    const slack = {
      wasm: soak ? 4 * MiB : 16 * MiB,
      ...device,
      heap: MiB,
      workerHeap: MiB,
      nodes: 0,
      listeners: 0,
      ...(soak ? { values: 2000, rss: 48 * MiB, files: 2 } : {}),
    };
    for (const key in slack) {
      const [before, after] = [median(early, key), median(late, key)];
      t.diagnostic(`${key}: ${before}, later ${after}`);
      assert.ok(
        after <= before + slack[key],
        `${key}: ${before}, later ${after}, which is more than ${slack[key]} above it`,
      );
    }
    await engine.page.evaluate(() => window.engine.dispose());
    assert.deepEqual(engine.errors, []);
    await engine.profile.close();
  },
);

function describe(life) {
  const size = (n) => `${(n / MiB).toFixed(2)} MiB`;
  return (
    `WASM ${size(life.wasm)}, heap ${size(life.heap)} and ${size(life.workerHeap)} in the worker, ` +
    `${life.values} values held by Go, ${life.buffers} buffers of ${size(life.bytes)}, ` +
    `${life.made} other objects made, ${life.nodes} nodes, ${life.listeners} listeners, ` +
    `RSS ${size(life.rss)}, ${life.files} files`
  );
}

/** Runs generations in the page, and stops each at a random moment in one of several ways. */
async function abort({ times, seed }) {
  let state = seed;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const { engine } = window;
  const out = { wrong: [], aborted: 0, finished: 0, tokens: 0 };
  const long = "package main\n\n" + "// a line of text that has to be read before anything is said\n".repeat(8);
  const wanted = (window.wanted ??= new Map());
  const took = (window.took ??= new Map()); // ms of the complete text on this machine; moments are fractions of it
  const ask = (prompt, temperature, more) => engine.generate(prompt, { temperature, seed: 5, ...more });
  for (const prompt of ["func main() {\n", long]) {
    for (const temperature of [0, 0.8]) {
      const key = prompt + temperature;
      if (wanted.has(key)) continue;
      const begun = performance.now();
      wanted.set(
        key,
        (await ask(prompt, temperature, { max_tokens: 40, policy: "none", no_reuse: true }).result).token_ids,
      );
      took.set(key, performance.now() - begun);
    }
  }
  for (let i = 0; i < times; i++) {
    const prompt = random() < 0.5 ? long : "func main() {\n";
    const temperature = random() < 0.5 ? 0 : 0.8;
    const whole = wanted.get(prompt + temperature);
    const policy = ["auto", "none", "chain", "eagle2", "ngram"][Math.floor(random() * 5)];
    const way = Math.floor(random() * 3);
    const moment = random();
    const control = new AbortController();
    const run = ask(prompt, temperature, {
      max_tokens: 40,
      policy,
      no_reuse: random() < 0.7,
      ...(way === 1 ? { signal: control.signal } : {}),
    });
    const got = [];
    const stop = () => (way === 1 ? control.abort() : run.stop());
    const rounds = moment < 0.3 ? Math.floor(random() * 8) : -1; // otherwise after a time
    const timer = rounds < 0 && way < 2 ? setTimeout(stop, random() * took.get(prompt + temperature)) : undefined;
    try {
      if (rounds === 0 && way < 2) stop(); // before the start
      for await (const round of run) {
        got.push(...round.tokens.map((token) => token.id));
        if (way === 2 && got.length >= random() * 30) break; // leaves the loop
        if (rounds > 0 && got.length >= rounds) stop();
      }
      const { finish, token_ids } = await run.result;
      got.splice(0, got.length, ...token_ids);
      out[finish === "aborted" ? "aborted" : "finished"]++;
    } catch (cause) {
      if (cause.code === "aborted") out.aborted++;
      else out.wrong.push(`abort ${i}, ${policy}: ${cause}`);
    }
    clearTimeout(timer);
    out.tokens += got.length;
    if (got.some((id, at) => id !== whole[at]))
      out.wrong.push(`abort ${i}, ${policy}: ${got}, want the beginning of ${whole}`);
    for (;;) {
      // An aborted signal rejects at once; the engine is idle once the round has ended.
      try {
        const after = (
          await ask(prompt, temperature, { max_tokens: 4, policy: random() < 0.5 ? "none" : policy }).result
        ).token_ids;
        if (after.join() !== whole.slice(0, 4).join())
          out.wrong.push(`after abort ${i}, ${policy}: ${after}, want the beginning of ${whole}`);
        break;
      } catch (cause) {
        if (cause.code !== "busy") {
          out.wrong.push(`after abort ${i}, ${policy}: ${cause}`);
          break;
        }
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
  }
  return out;
}

test(
  "generations stopped at random moments end within a round",
  { timeout: (soak ? 3 : 1) * limit.timeout },
  async (t) => {
    const least = much(8, 1000);
    const engine = await openEngine(256);
    const all = { aborted: 0, finished: 0, tokens: 0 };
    const heard = () => engine.worker.evaluate(() => ({ stops: globalThis.seen.stops, late: globalThis.seen.late }));
    const enough = ({ stops }) => all.aborted > least / 3 && stops > least / 4;
    // Random moments may fall after the end of a text: continue until enough fell within one.
    let times = 0;
    const step = Math.min(20, least);
    for (; times < least || !enough(await heard()); times += step) {
      const { wrong, ...some } = await engine.page.evaluate(abort, { times: step, seed: times + 1 });
      assert.deepEqual(wrong, []);
      for (const key in all) all[key] += some[key];
      if (soak && times % 100 === 0) console.log(`${times + step} generations: ${JSON.stringify(all)}`);
    }
    const { stops, late } = await heard();
    t.diagnostic(
      `${times} generations, ${all.aborted} aborted with ${all.tokens} tokens, ${all.finished} at their end ` +
      `before; ${stops} stops reached the worker in the middle of one`,
    );
    assert.ok(enough({ stops }), JSON.stringify({ all, stops }));
    assert.ok(Math.max(...late) <= 1, `rounds after a stop: ${late.filter((n) => n > 1)}`);
    await engine.page.evaluate(() => window.engine.dispose());
    assert.deepEqual(engine.errors, []);
    await engine.profile.close();
  },
);
