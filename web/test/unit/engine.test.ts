import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine, EngineError, type LoadOptions, type WorkerLike } from "../../src/engine.ts";
import type { FromWorker, GoEngine, Progress, ToWorker } from "../../src/protocol.ts";
import { serve, wireError } from "../../src/serve.ts";
import { mockEngine } from "../mock/engine.ts";

const GGUF = new Blob(["GGUF", new Uint8Array(1000)]);

/** A worker without a thread: messages are cloned and delivered later, as between threads. */
class FakeWorker implements WorkerLike {
  terminated = false;
  readonly #page: Record<string, ((event: never) => void)[]> = { message: [], error: [], messageerror: [] };
  readonly #inside: ((event: { data: ToWorker }) => void)[] = [];

  constructor(start: () => Promise<GoEngine>) {
    const deliver = (message: FromWorker): void => {
      const data = structuredClone(message);
      setImmediate(() => !this.terminated && this.emit("message", { data }));
    };
    serve({ postMessage: deliver, addEventListener: (_type, listener) => this.#inside.push(listener) }, start);
  }

  postMessage(message: ToWorker): void {
    const data = structuredClone(message);
    setImmediate(() => !this.terminated && this.#inside.forEach((listener) => listener({ data })));
  }

  addEventListener(type: string, listener: (event: never) => void): void {
    this.#page[type]!.push(listener);
  }

  emit(type: string, event: unknown): void {
    for (const listener of this.#page[type]!) listener(event as never);
  }

  terminate(): void {
    this.terminated = true;
  }
}

async function load(go: () => Promise<GoEngine>, options: Partial<LoadOptions> = {}): Promise<{ engine: Engine; worker: FakeWorker }> {
  const worker = new FakeWorker(go);
  return { engine: await Engine.load({ target: GGUF, draft: GGUF, worker: () => worker, ...options }), worker };
}

const mock = async (): Promise<GoEngine> => mockEngine({ roundMs: 1 });

test("loads with progress, generates rounds that add up to the result", async () => {
  const steps: Progress[] = [];
  const { engine } = await load(mock, { onProgress: (p) => steps.push(p) });
  assert.equal(engine.info.target.quant, "Q8_0");
  assert.deepEqual([...new Set(steps.map((p) => p.stage))], ["target", "draft", "kernels", "ready"]);
  const run = engine.generate({ prompt: "func", max_tokens: 40 });
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

test("options and defaults reach the engine as the contract names them", async () => {
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
  await engine.generate({ prompt: "x", max_tokens: 2 }).result;
  assert.deepEqual(seen, [
    { device: "cpu", kv: "f16" },
    { prompt: "x", max_tokens: 2, temperature: 0, seed: 1, policy: "none", depth: 4, top_k: 4, nodes: 16, verifier: "match" },
  ]);
});

test("stop ends a generation as aborted, leaving the loop does too", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 5 }));
  const run = engine.generate({ prompt: "x", max_tokens: 100_000 });
  for await (const round of run) if (round.round === 1) run.stop();
  assert.equal((await run.result).finish, "aborted");
  const left = engine.generate({ prompt: "x", max_tokens: 100_000 });
  for await (const _ of left) break;
  assert.equal((await left.result).finish, "aborted");
});

test("a second generation is refused while one runs", async () => {
  const { engine } = await load(async () => mockEngine({ roundMs: 5 }));
  const run = engine.generate({ prompt: "x" });
  await assert.rejects(engine.generate({ prompt: "y" }).result, (e: EngineError) => e.code === "busy");
  run.stop();
  await run.result;
  assert.equal((await engine.generate({ prompt: "z", max_tokens: 3 }).result).token_ids.length, 3);
});

test("an engine's error arrives with its message, in the promise and in the loop", async () => {
  const { engine } = await load(mock);
  const run = engine.generate({ prompt: "panic" });
  await assert.rejects(
    async () => {
      for await (const _ of run);
    },
    (e: EngineError) => e instanceof EngineError && e.code === "generate" && e.message === "prompt: text: the mock was asked to fail",
  );
  await assert.rejects(run.result);
  assert.equal((await engine.generate({ prompt: "fine", max_tokens: 3 }).result).finish, "length");
});

test("a bad model fails the load and ends the worker", async () => {
  const worker = new FakeWorker(mock);
  const bad = Engine.load({ target: new File(["ELF!", "x"], "bad.gguf"), worker: () => worker });
  await assert.rejects(bad, (e: EngineError) => e.code === "load" && e.message.startsWith("bad.gguf: magic: "));
  assert.ok(worker.terminated);
});

test("a failed start is forgotten, so the next message tries again", async () => {
  let starts = 0;
  const worker = new FakeWorker(async () => {
    if (starts++ === 0) throw new Error("foretoken.wasm: download: the server answered 503");
    return mockEngine();
  });
  const replies: FromWorker[] = [];
  worker.addEventListener("message", ({ data }: { data: FromWorker }) => void replies.push(data));
  for (const id of [1, 2, 3]) {
    worker.postMessage({ op: "inspect", id, source: { kind: "file", file: GGUF, name: "a.gguf" } });
    while (replies.length < id) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.equal(starts, 2);
  assert.deepEqual(replies.map((r) => r.type), ["error", "done", "done"]);
});

test("a crash rejects all that is pending and says so once", async () => {
  const { engine, worker } = await load(async () => mockEngine({ roundMs: 5 }));
  const crashes: string[] = [];
  engine.onCrash((error) => crashes.push(error.message));
  const run = engine.generate({ prompt: "x" });
  const inspecting = engine.inspect(GGUF);
  worker.emit("message", { data: { type: "crash", error: { message: "the engine stopped: panic: boom" } } });
  worker.emit("error", { message: "again" });
  for (const pending of [run.result, inspecting]) await assert.rejects(pending, (e: EngineError) => e.code === "crash" && /boom/.test(e.message));
  await assert.rejects(engine.generate({ prompt: "later" }).result, (e: EngineError) => e.code === "crash");
  assert.deepEqual(crashes, ["the engine stopped: panic: boom"]);
  assert.ok(worker.terminated);
});

test("aborting a load ends its worker", async () => {
  const control = new AbortController();
  const worker = new FakeWorker(() => new Promise(() => undefined));
  const loading = Engine.load({ target: GGUF, worker: () => worker, signal: control.signal });
  control.abort();
  await assert.rejects(loading, (e: EngineError) => e.code === "aborted");
  assert.ok(worker.terminated);
});

test("dispose ends a running generation and later calls", async () => {
  const { engine, worker } = await load(async () => mockEngine({ roundMs: 5 }));
  const run = engine.generate({ prompt: "x" });
  await engine.dispose();
  assert.equal((await run.result).finish, "aborted");
  assert.ok(worker.terminated);
  await assert.rejects(engine.generate({ prompt: "x" }).result, (e: EngineError) => e.code === "disposed");
});

test("lists that Go left null arrive empty", async () => {
  const { engine } = await load(async () => ({
    ...mockEngine(),
    generate: async (_json, onEvent) => {
      onEvent('{"round":0,"text":"","tokens":null,"tree":{"tokens":null},"ms":{},"elapsed_ms":1,"finish":"aborted"}');
      return '{"text":"","token_ids":[],"finish":"aborted"}';
    },
  }));
  for await (const round of engine.generate({ prompt: "x" })) {
    assert.deepEqual([round.tokens, round.tree.depths, round.tree.tokens], [[], [], []]);
  }
});

test("errors cross as one line", () => {
  assert.deepEqual(wireError(new Error("a.gguf: magic:\n  wrong")), { message: "a.gguf: magic: wrong" });
  assert.deepEqual(wireError(Object.assign(new Error("x"), { code: "source" })), { code: "source", message: "x" });
  assert.deepEqual(wireError("text"), { message: "text" });
});
