/** What callers pass to the API: all that JSON cannot carry is refused, with the name of its field. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Engine, Engine as Engines, ForetokenError, type LoadOptions } from "../../src/engine/engine.ts";
import { nearest } from "../../src/engine/options.ts";
import { plain, textOf } from "../../src/engine/plain.ts";
import type { GoEngine } from "../../src/protocol/protocol.ts";
import { mockEngine } from "../mock/engine.ts";
import { FakeWorker } from "./fakes.ts";

const GGUF = new Blob(["GGUF", new Uint8Array(1000)]);

const cycle: unknown[] = [];
cycle.push({ again: cycle });
const deep = JSON.parse(`${"[".repeat(600)}${"]".repeat(600)}`) as unknown;
const shared = Array.from({ length: 400 }, () => Array(400).fill(0) as unknown);
const thrower = (): never => {
  throw new Error("the caller's\nown");
};

/** Values that no request can carry, and what the error says of them. */
const foreign: [unknown, RegExp][] = [
  [() => 1, /is a function/],
  [Symbol("x"), /is a symbol/],
  [Number.NaN, /is NaN/],
  [-Infinity, /is -Infinity/],
  [10n ** 400n, /BigInt beyond/],
  [cycle, /contains itself/],
  [deep, /nested more than 250/],
  [shared, /more than 100000 values/],
  [[1, undefined], /has no value at 1/],
  [[1, , 3], /has no value at 1/],
  [new Map([[1, 2]]), /type Map/],
  [new Set(), /type Set/],
  [/x/, /type RegExp/],
  [new Uint8Array(2), /type Uint8Array/],
  [new ArrayBuffer(2), /type ArrayBuffer/],
  [Promise.resolve(), /type Promise/],
  [new Error("x"), /type Error/],
  [new Blob(), /type Blob/],
  [Object(1), /type Number/],
  [{ get x() { return thrower(); } }, /cannot be read: "the caller's\\nown"/],
  [{ toJSON: thrower }, /cannot be read/],
  [new Proxy({}, { ownKeys: thrower }), /cannot be read/],
  [Proxy.revocable([], {}).revoke, /is a function/],
  ["a\ud800b", /half of a surrogate pair/],
  [{ "\udc00": 1 }, /half of a surrogate pair/],
];

test("what JSON cannot carry is refused, wherever it stands", () => {
  for (const [value, says] of foreign)
    for (const [given, place] of [
      [{ field: value }, "field"],
      [{ field: { a: [1, { b: value }] } }, "field.a[1].b"],
      [{ field: { "a b": value } }, 'field."a b"'],
    ] as const)
      assert.throws(
        () => plain(given),
        (e: ForetokenError) =>
          e.code === "bad_option" &&
          e.param === "field" &&
          e.message.startsWith(value === shared ? "field has" : place) &&
          says.test(e.message) &&
          !/\n/.test(e.message),
        `${place}: ${says}`,
      );
});

test("what JSON can carry arrives as it is", () => {
  class Own {
    a = 1;
  }
  for (const [value, text] of [
    [{ a: undefined, b: null, c: [true, "é😀", -0, 1e21] }, '{"b":null,"c":[true,"é😀",0,1e+21]}'],
    [5n, "5"],
    [[2n ** 63n, -(2n ** 64n), 2n ** 53n], "[9223372036854775808,-18446744073709551616,9007199254740992]"],
    [new Own(), '{"a":1}'],
    [Object.assign(Object.create(null) as object, { a: 1 }), '{"a":1}'],
    [new Proxy({ a: [1] }, {}), '{"a":[1]}'], // as of frameworks that watch their data
    [{ toJSON: () => ({ b: 2 }) }, '{"b":2}'],
    [{ a: new Date(0), b: new Date(NaN) }, '{"a":"1970-01-01T00:00:00.000Z","b":null}'],
    [[new URL("https://a.example")], '["https://a.example/"]'],
    [JSON.parse('{"__proto__": {"a": 1}}'), '{"__proto__":{"a":1}}'],
    [[shared[0], shared[0]], `[[${"0,".repeat(399)}0],[${"0,".repeat(399)}0]]`],
  ] as const)
    assert.equal(textOf(value), text);
  assert.equal(({} as { a?: unknown }).a, undefined);
});

async function load(options: object = {}, seen: string[] = []): Promise<Engine> {
  const go = async (): Promise<GoEngine> => {
    const inner = mockEngine();
    return {
      ...inner,
      open: (json, sources, progress) => (seen.push(json), inner.open(json, sources, progress)),
      generate: (json, event) => (seen.push(json), inner.generate(json.replace(/"seed":\d+,?/, ""), event)),
    };
  };
  const worker = (): Worker => new FakeWorker(go) as unknown as Worker;
  return Engines.load({ target: GGUF, draft: GGUF, worker, ...options });
}

test("every call refuses it as bad_option, with the name of its field in param", async () => {
  const engine = await load();
  const chat = await engine.chat();
  const matrix = { methods: "none", prompts: [{ id: "a", prompt: "b" }], repeat: 1 };
  const messages = [{ role: "user", content: "x" }];
  const calls: [string, (bad: never) => Promise<unknown>][] = [
    ["json_schema", (json_schema) => engine.generate("x", { json_schema }).result],
    ["seed", (seed) => engine.generate("x", { seed }).result],
    ["logit_bias", (bias) => engine.generate("x", { logit_bias: { 5: bias } }).result],
    ["system", (system) => engine.chat({ system })],
    ["vars", (a) => engine.chat({ vars: { a } })],
    ["tools", (tool) => engine.chat({ tools: [tool] })],
    ["message", (content) => chat.send({ role: "user", content }).result],
    ["top_p", (top_p) => chat.regenerate({ top_p }).result],
    ["stop", (stop) => chat.edit(0, "x", { stop: [stop] }).result],
    ["prompts", (prompt) => engine.bench({ ...matrix, prompts: [{ id: "a", prompt }] }).result],
    ["request", (temperature) => engine.bench({ ...matrix, request: { temperature } }).result],
    ["rows", (row) => engine.costs({ rows: [row] })],
    ["prompt", (prompt) => engine.profile({ prompt })],
    ["browser", (browser) => engine.doctor({ browser })],
    ["pooling", (pooling) => engine.embed("x", { pooling })],
    ["kv", (kv) => load({ kv })],
    ["threads", (threads) => load({ threads })],
    ["target", (target) => load({ target })],
    ["draft", (draft) => load({ draft: [draft] })],
    ["eagle3", (eagle3) => load({ eagle3 })],
    ["calibrations", (file) => load({ calibrations: [file] })],
    ["cache", (cache) => load({ cache })],
    ["hub", (hub) => load({ hub })],
    ["hosts", (host) => load({ hosts: [host] })],
    ["messages", (content) => engine.chat.completions.create({ messages: [{ role: "user", content }] })],
    ["chat_template_kwargs", (a) => engine.chat.completions.create({ messages, chat_template_kwargs: { a } } as never)],
    ["foretoken", (depth) => engine.chat.completions.create({ messages, foretoken: { depth } } as never)],
  ];
  for (const [param, call] of calls)
    for (const [value, says] of foreign) {
      const names = /target|draft|eagle3|calibrations/.test(param) && /Blob|URL/.test(String(says));
      if (typeof value === "string" || names) continue; // a file, or a name that does not exist
      await assert.rejects(
        async () => call(value as never),
        (e: ForetokenError) => e instanceof ForetokenError && e.code === "bad_option" && e.param === param,
        `${param}: ${says}`,
      );
    }
});

test("names and types of options are checked before anything starts", async () => {
  const engine = await load();
  const matrix = { methods: "none", prompts: [], repeat: 1 };
  const signal = {} as AbortSignal;
  const onUpdate = "x" as never;
  for (const [param, call] of [
    [undefined, () => Engines.load(null as never)],
    ["targt", () => load({ targt: 1 })],
    ["Device", () => load({ Device: "cpu" })],
    ["target", () => Engines.load({ get target() { return thrower(); } })],
    ["target", () => load({ target: [] })],
    ["target", () => load({ target: 5 })],
    ["target", () => load({ target: "javascript:alert(1)" })],
    ["draft", () => load({ draft: "ftp://a.example/b.gguf" })],
    ["eagle3", () => load({ eagle3: "chrome://version" })],
    ["eagle3_config", () => load({ eagle3_config: "file:///etc/passwd" })],
    ["calibrations", () => load({ calibrations: ["ws://a.example"] })],
    ["calibrations", () => load({ calibrations: Array(17).fill(GGUF) })],
    ["calibrations", () => load({ calibrations: "bultin" })],
    ["hub", () => load({ hub: "javascript:0", target: "owner/repo" })],
    ["worker", () => load({ worker: "javascript:0" })],
    ["worker", () => load({ worker: 5 })],
    ["cache", () => load({ cache: "sometimes" })],
    ["threads", () => load({ threads: "2" })],
    ["onProgress", () => load({ onProgress: 1 })],
    ["signal", () => load({ signal: {} })],
    ["hosts", () => load({ hosts: "https://a.example" })],
    [undefined, () => engine.generate("x", null as never).result],
    [undefined, () => engine.generate("x", [] as never).result],
    ["signal", () => engine.generate("x", { signal }).result],
    ["logits_processor", () => engine.generate("x", { logits_processor: 1 as never }).result],
    ["prompt", () => engine.generate("x", { prompt: "y" } as never).result],
    ["seed", () => engine.generate("x", { seed: 2 ** 53 }).result],
    ["seed", () => engine.bench({ ...matrix, request: { seed: 2 ** 53 } }).result],
    ["sytem", () => engine.chat({ sytem: "x" } as never)],
    ["do", () => engine.chat({ do: "send" } as never)],
    ["onUpdate", () => engine.bench(matrix, { onUpdate }).result],
    ["onupdate", () => engine.costs({}, { onupdate: () => 1 } as never)],
    ["signal", () => engine.embed("x", { signal })],
    ["signal", () => engine.inspect(GGUF, { signal })],
    ["source", () => engine.inspect("javascript:0")],
    ["timeout", () => engine.chat.completions.create({ messages: [] }, { timeout: 5 } as never)],
    [undefined, () => engine.chat.completions.create(undefined as never)],
  ] as [string | undefined, () => Promise<unknown>][])
    await assert.rejects(
      async () => call(),
      (e: ForetokenError) => e instanceof ForetokenError && e.code === "bad_option" && e.param === param,
      `${param}: ${call}`,
    );
});

test("numbers may be BigInts, and seeds keep 64 bits", async () => {
  const seen: string[] = [];
  const engine = await load({ context: 64n, device: "cpu" } as unknown as LoadOptions, seen);
  const whole = { prompt: "x", max_tokens: 2n as never, seed: 2n ** 64n - 1n, policy: "none" };
  await engine.generate("x", whole).result;
  await engine.generate("x", { max_tokens: 2n as never, seed: 2n ** 64n - 1n, policy: "none" }).result;
  assert.deepEqual(seen.slice(0, 2), [
    '{"device":"cpu","context":64}',
    '{"max_tokens":2,"seed":18446744073709551615,"policy":"none","prompt":"x"}',
  ]);
  assert.equal(seen[2], seen[1]);
});

test("the nearest known name is found", () => {
  const known = ["target", "draft", "max_tokens", "temperature", "max_nodes"];
  for (const [name, want] of [
    ["targt", "target"],
    ["tagret", "target"],
    ["maxTokens", "max_tokens"],
    ["temp", "temperature"],
    ["x", undefined],
    ["colour", undefined],
  ] as const)
    assert.equal(nearest(name, known), want, name);
});
