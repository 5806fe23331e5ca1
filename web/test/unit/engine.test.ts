import assert from "node:assert/strict";
import { test } from "node:test";
import { kernelName } from "../../src/benchmark/profile.ts";
import { Engine, ForetokenError, type LoadOptions } from "../../src/engine/engine.ts";
import { configOf, METHODS } from "../../src/engine/methods.ts";
import { textOf } from "../../src/engine/plain.ts";
import type { BenchUpdate, FromWorker, GoEngine, Progress, RoundEvent } from "../../src/protocol/protocol.ts";
import { readTrace } from "../../src/protocol/trace.ts";
import { wireError } from "../../src/worker/serve.ts";
import { mockEngine } from "../mock/engine.ts";
import { FakeWorker } from "./fakes.ts";

const GGUF = new Blob(["GGUF", new Uint8Array(1000)]);

async function load(
  go: () => Promise<GoEngine>,
  options: Partial<LoadOptions> = {},
): Promise<{ engine: Engine; worker: FakeWorker }> {
  const worker = new FakeWorker(go);
  return {
    engine: await Engine.load({ target: GGUF, draft: GGUF, worker: () => worker as unknown as Worker, ...options }),
    worker,
  };
}

const mock = async (): Promise<GoEngine> => mockEngine({ roundMs: 1 });

test("loads with progress, generates rounds that add up to the result", async () => {
  const steps: Progress[] = [];
  const { engine } = await load(mock, { onProgress: (p) => steps.push(p) });
  assert.equal(engine.info.target.quant, "Q8_0");
  assert.deepEqual([...new Set(steps.map((p) => p.stage))], ["target", "draft", "kernels", "ready"]);
  const run = engine.generate("func", { max_tokens: 40 });
  let text = "";
  const ids: number[] = [];
  for await (const round of run) {
    text += round.text;
    ids.push(...round.tokens.map((t) => t.id));
  }
  const result = await run.result;
  assert.equal(text, result.text);
  assert.deepEqual(ids, result.token_ids);
  assert.equal(ids.length, 40);
});

test("ready is the last step of loading, after what the files still need", async () => {
  const stages: string[] = [];
  const go = async (): Promise<GoEngine> => {
    const engine = mockEngine();
    return {
      ...engine,
      open: async (options, sources, onProgress) => {
        let reported = 0;
        const info = await engine.open(options, sources, (json) => {
          reported++;
          onProgress(json);
        });
        while (stages.length < reported - 1) await new Promise((resolve) => setTimeout(resolve, 1)); // "ready" waits
        stages.push("files");
        return info;
      },
    };
  };
  await load(go, { onProgress: ({ stage }) => stages.push(stage) });
  assert.deepEqual(stages.slice(-2), ["files", "ready"]);
  assert.equal(stages.filter((stage) => stage === "ready").length, 1);
});

test("a conversation streams answers, supports edits and regeneration, and ends when the next one starts", async () => {
  const { engine } = await load(mock);
  const chat = await engine.chat({ system: "Be brief." });
  assert.deepEqual(chat.messages, [{ role: "system", content: "Be brief." }]);
  const request = { max_tokens: 12 };
  const run = chat.send("first", request);
  let text = "";
  for await (const round of run) text += round.text;
  const reply = await run.result;
  assert.equal(reply.result.text, text);
  assert.deepEqual(
    chat.messages.map((m) => m.content),
    ["Be brief.", "first", text],
  );
  assert.equal((await chat.regenerate({ ...request, seed: 9 }).result).messages.length, 3);
  await chat.send("second", request).result;
  await chat.edit(1, "instead", request).result;
  assert.deepEqual(
    chat.messages.slice(0, -1).map((m) => m.content),
    ["Be brief.", "instead"],
  );

  // A stopped answer keeps its text so far; a failed one changes nothing.
  const long = chat.send("third", { max_tokens: 5000 });
  for await (const round of long) if (round.round > 1) break;
  assert.equal((await long.result).result.finish, "aborted");
  assert.equal(chat.messages.length, 5);
  await assert.rejects(
    chat.send("panic", request).result,
    (e: ForetokenError) => e.code === "bad_option" && /asked to fail/.test(e.message),
  );
  assert.equal(chat.messages.length, 5);
  const busy = chat.send("fourth", request);
  await assert.rejects(engine.generate("x").result, (e: ForetokenError) => e.code === "busy");
  await busy.result;

  const next = await engine.chat({ messages: [{ role: "user", content: "hello" }] });
  await assert.rejects(chat.send("fifth", request).result, /a new one was started/);
  await assert.rejects(async () => {
    for await (const round of chat.regenerate(request)) assert.fail(String(round.round));
  }, /a new one was started/);
  assert.equal((await next.regenerate(request).result).messages.length, 2);
});

test("a conversation without a draft decodes plainly by default", async () => {
  const seen: { do: string; request?: { policy?: string } }[] = [];
  const { engine } = await load(
    async () => {
      const inner = mockEngine();
      return { ...inner, chat: (json, event) => (seen.push(JSON.parse(json)), inner.chat(json, event)) };
    },
    { draft: null },
  );
  const chat = await engine.chat();
  await chat.send("x", { max_tokens: 4 }).result;
  await chat.send("y", { max_tokens: 4, policy: "ngram" }).result;
  assert.deepEqual(
    seen.map((a) => [a.do, a.request?.policy]),
    [
      ["open", undefined],
      ["send", configOf({}).uses_draft ? "none" : undefined],
      ["send", "ngram"],
    ],
  );
});

test("options and defaults reach the engine under the names of the protocol", async () => {
  const seen: unknown[] = [];
  const { engine } = await load(
    async () => {
      const inner = mockEngine();
      return {
        ...inner,
        open: (json, sources, progress) => (seen.push(JSON.parse(json)), inner.open(json, sources, progress)),
        generate: (json, event) => (seen.push(JSON.parse(json)), inner.generate(json, event)),
      };
    },
    { device: "cpu", kv: "f16", draft: null },
  );
  await engine.generate("x", { max_tokens: 2 }).result;
  assert.deepEqual(seen, [
    { device: "cpu", kv: "f16" },
    // Go fills in missing fields, except a default method that needs a missing draft.
    { prompt: "x", max_tokens: 2, ...(configOf({}).uses_draft ? { policy: "none" } : {}) },
  ]);
});

test("stop and leaving the loop end a generation as aborted", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 5 }));
  const run = engine.generate("x", { max_tokens: 100_000 });
  for await (const round of run) if (round.round === 1) run.stop();
  assert.equal((await run.result).finish, "aborted");
  const left = engine.generate("x", { max_tokens: 100_000 });
  for await (const _ of left) break;
  assert.equal((await left.result).finish, "aborted");
});

test("a signal ends generations, measurements and reads, which reject as aborted", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 5 }));
  const gone = (e: ForetokenError): boolean =>
    e instanceof ForetokenError && e.code === "aborted" && e.cause === "enough";
  const control = new AbortController();
  const run = engine.generate("x", { max_tokens: 100_000, signal: control.signal });
  await assert.rejects(async () => {
    for await (const round of run) if (round.round === 1) control.abort("enough");
  }, gone);
  await assert.rejects(run.result, gone);
  const { signal } = control;
  for (const late of [
    engine.generate("x", { signal }).result,
    engine.bench({ methods: "none", prompts: [], repeat: 1 }, { signal }).result,
    engine.costs({}, { signal }),
    engine.embed("x", { signal }),
    engine.inspect(GGUF, { signal }),
  ])
    await assert.rejects(late, gone);
  const later = new AbortController();
  const matrix = { methods: "none,chain,mars", prompts: [{ id: "a", prompt: "x" }], repeat: 2 };
  await assert.rejects(
    engine.bench(matrix, { signal: later.signal, onUpdate: () => later.abort("enough") }).result,
    gone,
  );
  assert.equal((await engine.generate("x", { max_tokens: 2 }).result).finish, "length");

  // An aborted answer stays in the conversation with its text so far.
  const talk = new AbortController();
  const chat = await engine.chat();
  const answer = chat.send("hello", { max_tokens: 100_000, signal: talk.signal });
  await assert.rejects(async () => {
    for await (const round of answer) if (round.round === 1) talk.abort("enough");
  }, gone);
  assert.deepEqual(
    chat.messages.map((m) => m.role),
    ["user", "assistant"],
  );
});

test("stopping finished work does not stop later work", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 2 }));
  const first = engine.generate("x", { max_tokens: 3 });
  await first.result;
  const second = engine.generate("x", { max_tokens: 30 });
  first.stop();
  assert.equal((await second.result).finish, "length");
});

test("statistics add up requests", async () => {
  const { engine } = await load(mock);
  assert.deepEqual([engine.stats().requests, engine.stats().acceptance_length, engine.stats().last], [0, 0, undefined]);
  const a = (await engine.generate("x", { max_tokens: 12, policy: "eagle2" }).result).stats;
  const b = (await engine.generate("y", { max_tokens: 20, policy: "chain" }).result).stats;
  const all = engine.stats();
  assert.deepEqual(
    [all.requests, all.output_tokens, all.rounds, all.drafted, all.accepted, all.method],
    [2, 32, a.rounds + b.rounds, a.drafted + b.drafted, a.accepted + b.accepted, "chain"],
  );
  assert.equal(all.acceptance_length, 32 / (a.calls + b.calls));
  assert.equal(all.ms.total, a.total_ms + b.total_ms);
  assert.deepEqual(all.last, b);
  assert.deepEqual([all.device, all.memory.gpu_bytes], [engine.info.device, engine.info.gpu_bytes]);
});

test("await using disposes of an engine", async () => {
  const { engine, worker } = await load(mock);
  await engine[Symbol.asyncDispose]();
  assert.ok(worker.terminated);
});

test("invalid options are rejected before a worker starts", async () => {
  const worker = (): never => assert.fail("a worker was started");
  for (const options of [{}, { draft: GGUF }, { target: "http://" }])
    await assert.rejects(Engine.load({ ...options, worker }), { name: "ForetokenError", code: "bad_option" });
  for (const [given, param, message] of [
    [{ targt: GGUF }, "targt", "targt is unknown; did you mean target?"],
    [{ maxNodes: 64 }, "maxNodes", "maxNodes is unknown; did you mean max_nodes?"],
    [{ colour: "red" }, "colour", "colour is unknown"],
  ] as const)
    await assert.rejects(Engine.load({ ...given, worker } as LoadOptions), { code: "bad_option", param, message });
});

test("a prompt that is no text is refused", async () => {
  const { engine } = await load(mock);
  for (const [prompt, kind] of [
    [undefined, "undefined"],
    [7, "7"],
    [["x"], "a list"],
    [{ prompt: "x" }, "an object"],
  ] as const)
    await assert.rejects(engine.generate(prompt as unknown as string).result, {
      code: "bad_option",
      param: "prompt",
      message: `prompt is ${kind}, want a string`,
    });
});

test("a second generation is rejected while one runs", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 5 }));
  const run = engine.generate("x");
  await assert.rejects(engine.generate("y").result, (e: ForetokenError) => e.code === "busy");
  run.stop();
  await run.result;
  assert.equal((await engine.generate("z", { max_tokens: 3 }).result).token_ids.length, 3);
});

test("an engine's error arrives with its message, in the promise and in the loop", async () => {
  const { engine } = await load(mock);
  const run = engine.generate("panic");
  await assert.rejects(
    async () => {
      for await (const _ of run);
    },
    (e: ForetokenError) =>
      e instanceof ForetokenError &&
      e.code === "bad_option" &&
      e.message === "prompt: text: the mock was asked to fail",
  );
  await assert.rejects(run.result);
  assert.equal((await engine.generate("fine", { max_tokens: 3 }).result).finish, "length");
});

test("a bad model fails the load and ends the worker", async () => {
  const worker = new FakeWorker(mock);
  const bad = Engine.load({ target: new File(["ELF!", "x"], "bad.gguf"), worker: () => worker as unknown as Worker });
  await assert.rejects(bad, (e: ForetokenError) => e.code === "bad_model" && e.message.startsWith("bad.gguf: magic: "));
  assert.ok(worker.terminated);
});

test("after a failed start the next message tries again", async () => {
  let starts = 0;
  const worker = new FakeWorker(async () => {
    if (starts++ === 0) throw new Error("foretoken.wasm: download: the server answered 503");
    return mockEngine();
  });
  const replies: FromWorker[] = [];
  worker.addEventListener("message", ({ data }: { data: FromWorker }) => void replies.push(data));
  for (const id of [1, 2, 3]) {
    worker.postMessage({ op: "inspect", id, source: { kind: "file", file: GGUF, name: "a.gguf" }, hosts: [] });
    while (replies.length < id) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.equal(starts, 2);
  assert.deepEqual(
    replies.map((r) => r.type),
    ["error", "done", "done"],
  );
});

for (const ms of [1, 6, 10])
  test(`rounds of ${ms} ms share the messages of a frame, and all arrive before the result`, async () => {
    const worker = new FakeWorker(async () => mockEngine({ roundMs: ms }));
    const replies: FromWorker[] = [];
    worker.addEventListener("message", ({ data }: { data: FromWorker }) => void replies.push(data));
    const began = performance.now();
    worker.postMessage({ op: "generate", id: 1, request: textOf({ prompt: "func", policy: "none", max_tokens: 32 }) });
    while (replies.at(-1)?.type !== "done") await new Promise((resolve) => setTimeout(resolve, 1));
    const updates = replies.slice(0, -1).map((reply) => (reply.type === "update" ? reply.json : []));
    const frames = (performance.now() - began) / 15; // timers may be a fraction of a millisecond early
    const rounds = updates.flat().map((json) => (JSON.parse(json) as { round: number }).round);
    assert.deepEqual(rounds, [...rounds].sort((a, b) => a - b));
    assert.equal(new Set(rounds).size, 32);
    assert.equal(updates[0]!.length, 1, "the first round waits for no other");
    assert.ok(updates.length <= frames + 2, `${rounds.length} rounds in ${updates.length} messages, ${frames} frames`);
  });

test("a crash rejects all pending calls and is reported once", async () => {
  const { engine, worker } = await load(async () => mockEngine({ roundMs: 5 }));
  const crashes: string[] = [];
  engine.onCrash((error) => crashes.push(error.message));
  const run = engine.generate("x");
  const inspecting = engine.inspect(GGUF);
  worker.emit("message", { data: { type: "crash", error: { message: "the engine stopped: panic: boom" } } });
  worker.emit("error", { message: "again" });
  for (const pending of [run.result, inspecting])
    await assert.rejects(pending, (e: ForetokenError) => e.code === "crash" && /boom/.test(e.message));
  await assert.rejects(engine.generate("later").result, (e: ForetokenError) => e.code === "crash");
  assert.deepEqual(crashes, ["the engine stopped: panic: boom"]);
  assert.ok(worker.terminated);
});

test("aborting a load ends its worker", async () => {
  const control = new AbortController();
  const worker = new FakeWorker(() => new Promise(() => undefined));
  const loading = Engine.load({ target: GGUF, worker: () => worker as unknown as Worker, signal: control.signal });
  control.abort();
  await assert.rejects(loading, (e: ForetokenError) => e.code === "aborted");
  assert.ok(worker.terminated);
});

test("dispose ends a running generation and later calls", async () => {
  const { engine, worker } = await load(async () => mockEngine({ roundMs: 5 }));
  const run = engine.generate("x");
  await engine.dispose();
  assert.equal((await run.result).finish, "aborted");
  assert.ok(worker.terminated);
  await assert.rejects(engine.generate("x").result, (e: ForetokenError) => e.code === "disposed");
});

test("rounds come with their trees if the request asks for them, and together after the last one", async () => {
  const { engine } = await load(async () => mockEngine());
  const bare = engine.generate("x", { policy: "eagle2", max_tokens: 12, seed: 3 });
  for await (const round of bare) assert.equal(round.tree, undefined);
  const trace = readTrace(await bare.trace());
  const run = engine.generate("x", { policy: "eagle2", max_tokens: 12, seed: 3, trace: true });
  const rounds: RoundEvent[] = [];
  for await (const round of run) rounds.push(round);
  assert.deepEqual(
    trace.rounds.map(({ text, tokens, tree }) => ({ text, tokens, tree })),
    rounds.map(({ text, tokens, tree }) => ({ text, tokens, tree })),
  );
  assert.ok(rounds.every(({ tree }) => tree!.tokens.length > 1));
  assert.deepEqual([trace.prompt, trace.run, trace.finish], ["x", rounds.length, "length"]);
  assert.deepEqual(readTrace(await run.trace()).rounds.length, rounds.length);
  // The engine keeps the rounds of its last generation.
  const later = (e: ForetokenError): boolean => e.code === "disposed" && /a later one began/.test(e.message);
  await assert.rejects(bare.trace(), later);
  await assert.rejects(engine.generate("panic").trace(), (e: ForetokenError) => e.code === "bad_option");
  await assert.rejects(run.trace(), later);
});

test("errors cross the worker as one line", () => {
  assert.deepEqual(wireError(new Error("a.gguf: magic:\n  wrong")), { message: "a.gguf: magic: wrong" });
  assert.deepEqual(wireError(Object.assign(new Error("x"), { code: "quota" })), { code: "quota", message: "x" });
  assert.deepEqual(wireError(new DOMException("full", "QuotaExceededError")), { code: "quota", message: "full" });
  assert.deepEqual(wireError(new ForetokenError("bad_option", "no", "seed")), {
    code: "bad_option",
    message: "no",
    param: "seed",
  });
  assert.deepEqual(wireError("text"), { message: "text" });
});

test("heads and calibrations reach the engine as sources", async () => {
  const seen: string[] = [];
  const go = async (): Promise<GoEngine> => {
    const inner = mockEngine();
    return {
      ...inner,
      open: async (json, sources, progress) => {
        seen.push(
          json,
          ...[sources.eagle3, sources.eagle3_config, ...sources.calibrations].map((s) => `${s?.name} ${s?.size}`),
        );
        return inner.open(json, sources, progress);
      },
    };
  };
  const file = (name: string): File => new File(["{}"], name);
  await load(go, {
    eagle3: file("head.safetensors"),
    eagle3_config: file("config.json"),
    calibrations: [file("a.json"), file("b.json")],
    max_nodes: 128,
    threads: 3,
  });
  assert.deepEqual(seen.splice(0), [
    '{"device":"auto","threads":3,"max_nodes":128}',
    "head.safetensors 2",
    "config.json 2",
    "a.json 2",
    "b.json 2",
  ]);
  await load(go, { context: 4400, kv: "q8" });
  assert.equal(seen.splice(0)[0], '{"device":"auto","context":4400,"kv":"q8"}');
  await load(go, { calibrations: "builtin" });
  assert.deepEqual(seen, [
    '{"device":"auto","builtin_calibrations":true}',
    "undefined undefined",
    "undefined undefined",
  ]);
});

test("costs and profiles run one at a time and report progress", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 5 }));
  const updates: BenchUpdate[] = [];
  const costs = engine.costs({ rows: [1, 2, 4] }, { onUpdate: (update) => updates.push(update) });
  await assert.rejects(engine.profile(), (e: ForetokenError) => e.code === "busy");
  assert.deepEqual(
    (await costs).verify.map((c) => c.n),
    [1, 2, 4],
  );
  assert.deepEqual(updates, [{ done: 1, total: 1 }]);
  assert.equal((await engine.profile()).passes[0]!.kernels[0]!.calls, 5);
});

test("a logits processor answers the program's questions, and its failure ends the generation", async () => {
  const mock = mockEngine({ roundMs: 5 });
  const answers: string[] = [];
  const go: typeof mock = {
    ...mock,
    generate: async (json, onEvent, ask) => {
      assert.equal((JSON.parse(json) as { asks?: boolean }).asks, true);
      answers.push(await ask!("[[],[7,8]]"));
      return mock.generate(json, onEvent);
    },
  };
  const { engine } = await load(async () => go);
  const seen: number[][][] = [];
  const run = engine.generate("x", {
    max_tokens: 4,
    logits_processor: async (texts) => {
      seen.push(texts);
      return texts.map((text) => ({ [text.at(-1) ?? 0]: -100 }));
    },
  });
  assert.equal((await run.result).token_ids.length, 4);
  assert.deepEqual([seen, answers], [[[[], [7, 8]]], ['[{"0":-100},{"8":-100}]']]);
  const cause = new Error("a bug of the page");
  const failing = engine.generate("x", {
    logits_processor: () => {
      throw cause;
    },
  });
  await assert.rejects(
    failing.result,
    (e: ForetokenError) =>
      e.code === "bad_option" &&
      e.param === "logits_processor" &&
      e.cause === cause &&
      e.message.includes("a bug of the page"),
  );
  const hanging = engine.generate("x", { logits_processor: () => new Promise<never>(() => undefined) });
  setTimeout(() => hanging.stop(), 20);
  await assert.rejects(hanging.result, /ended before it answered/);
  await assert.rejects(
    engine.generate("x", { logits_processor: 3 as never }).result,
    (e: ForetokenError) => e.code === "bad_option" && e.param === "logits_processor",
  );
});

test("embed takes a text or a list of texts, and nothing else", async () => {
  const { engine } = await load(async () => mockEngine());
  const [one, two] = await engine.embed(["a", "bc"], { pooling: "last" });
  assert.deepEqual(
    [one, two],
    [
      { vector: [1, 0, 0, 1], tokens: 2 },
      { vector: [2, 0, 0, 1], tokens: 3 },
    ],
  );
  assert.deepEqual(await engine.embed("a"), [one]);
  for (const [texts, options, param] of [
    [undefined, {}, "texts"],
    [["a", 3], {}, "texts[1]"],
    ["a", { poolling: "mean" }, "poolling"],
  ])
    await assert.rejects(
      engine.embed(texts as string, options as object),
      (e: ForetokenError) => e.code === "bad_option" && e.param === param,
    );
});

test("kernel names are shortened to their distinguishing parts", () => {
  assert.equal(kernelName("matmul/params unpack_q8_0 matmul/norm matmul/rows R=4 TM=8"), "matmul/rows q8_0 R=4 TM=8");
  assert.equal(kernelName("attention/rope_params attention/rope_plain attention/rope rope_f32"), "rope_f32");
  assert.equal(kernelName("layer/embed unpack_q8_0 PARTS=1"), "layer/embed q8_0 PARTS=1");
  assert.equal(kernelName("layer/norm"), "layer/norm");
});

test("a benchmark reports progress, can be stopped, and excludes generations", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 5 }));
  const updates: BenchUpdate[] = [];
  const matrix = { methods: "none,chain,mars", prompts: [{ id: "a", prompt: "x" }], repeat: 2 };
  const run = engine.bench(matrix, { onUpdate: (update) => updates.push(update) });
  await assert.rejects(engine.generate("y").result, (e: ForetokenError) => e.code === "busy");
  const report = await run.result;
  assert.deepEqual(
    report.rows.map((r) => [r.method, r.lossy]),
    [
      ["plain", false],
      ["chain", false],
      ["mars", true],
    ],
  );
  assert.equal(updates.at(-1)!.done, updates.at(-1)!.total);
  const stopped = engine.bench(matrix, { onUpdate: () => stopped.stop() });
  assert.ok((await stopped.result).stopped);
  assert.deepEqual(
    (await engine.methods()).methods.map((m) => m.name),
    METHODS.map((m) => m.name),
  );
});

test("other work waits for a completion whose stream is unread, and can be stopped before its turn", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 2 }));
  const messages = [{ role: "user" as const, content: "x" }];
  const unread = (): Promise<unknown> => engine.chat.completions.create({ messages, max_tokens: 60, stream: true });
  const matrix = { methods: "none", prompts: [{ id: "a", prompt: "x" }], repeat: 1 };
  for (const work of [
    () => engine.generate("x", { max_tokens: 2 }).result,
    () => engine.chat(),
    () => engine.bench(matrix).result,
    () => engine.embed("x"),
    async () => (await unread(), engine.chat.completions.create({ messages, n: 2, max_tokens: 2 })),
    async () => {
      const stopped = engine.generate("x", { max_tokens: 5000 });
      stopped.stop();
      await assert.rejects(stopped.result, { code: "aborted" });
    },
    async () => {
      const control = new AbortController();
      const aborted = engine.generate("x", { max_tokens: 5000, signal: control.signal });
      control.abort();
      await assert.rejects(aborted.result, { code: "aborted" });
    },
  ]) {
    await unread();
    await work();
  }
  await unread();
  await engine.dispose();
  await assert.rejects(engine.generate("x").result, { code: "disposed" });
});

test("a stop settles work that waits for a completion at once", async () => {
  const never = new Promise<never>(() => undefined);
  const { engine } = await load(async () => ({ ...mockEngine(), openai: () => never, close: async () => undefined }));
  engine.chat.completions.create({ messages: [{ role: "user", content: "x" }] }).catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, 5));
  const matrix = { methods: "none", prompts: [{ id: "a", prompt: "x" }], repeat: 1 };
  const loop = engine.generate("x");
  for (const work of [engine.generate("x"), engine.bench(matrix), loop]) {
    work.stop();
    await assert.rejects(work.result, { code: "aborted" });
  }
  await assert.rejects(async () => {
    for await (const round of loop) assert.fail(String(round.round));
  }, { code: "aborted" });
  await engine.dispose();
});
