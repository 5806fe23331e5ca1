/** Untrusted input: arbitrary messages to the worker, and text that must never become HTML. */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import type { FromWorker, GoEngine, ToWorker } from "../../src/protocol/protocol.ts";
import { serve } from "../../src/worker/serve.ts";

/** Returns pseudo-random numbers with a fixed seed. */
function random(seed: number): (below: number) => number {
  let x = seed;
  return (below) => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return Math.floor((x / 2 ** 32) * below);
  };
}

const hostile: unknown[] = [
  undefined,
  null,
  true,
  NaN,
  Infinity,
  -1,
  2 ** 53,
  1e308,
  10n,
  "",
  "\ud800",
  "\u0000\n",
  "x".repeat(1 << 16),
  "__proto__",
  [],
  {},
  [null],
  new Date(0),
  new Map([[1, 2]]),
  new Uint8Array(3),
  new Blob(["GGUF"]),
  { kind: "url" },
  { kind: "url", url: "\n" },
  { kind: "url", url: "javascript:alert(1)" },
  { kind: "file", name: "<b>" },
  { kind: "files", files: [{ kind: "files", files: [] }] },
  { toString: null },
  { length: 1e9 },
  JSON.parse('{"__proto__": {"polluted": 1}}'),
];

const blob = (): Blob => new Blob(["GGUF", new Uint8Array(100)]);
const sound: (() => Record<string, unknown>)[] = [
  () => ({ op: "start", webgpu: true }),
  () => ({ op: "stop" }),
  () => ({
    op: "open",
    options: '{"device": "cpu"}',
    sources: {
      target: { kind: "file", file: blob(), name: "a.gguf" },
      draft: null,
      eagle3: null,
      eagle3_config: null,
      calibrations: [],
    },
  }),
  () => ({ op: "generate", request: JSON.stringify({ prompt: "x", stop: ["a"], logit_bias: { "3": 1 } }) }),
  () => ({ op: "openai", path: "/v1/completions", body: '{"prompt": "hi"}' }),
  () => ({ op: "chat", action: JSON.stringify({ do: "send", message: { role: "user", content: "hi" }, request: {} }) }),
  () => ({ op: "bench", matrix: JSON.stringify({ methods: "none", prompts: [{ id: "a", prompt: "b" }], repeat: 1 }) }),
  () => ({ op: "embed", request: JSON.stringify({ texts: ["a"], pooling: "last" }) }),
  () => ({ op: "measure", measurement: JSON.stringify({ what: "costs" }) }),
  () => ({ op: "methods" }),
  () => ({ op: "inspect", source: { kind: "file", file: blob(), name: "a.gguf" } }),
  () => ({ op: "close" }),
];

/** Replaces a random part of a message by a hostile value. */
function spoil(message: Record<string, unknown>, pick: (below: number) => number): unknown {
  const value = hostile[pick(hostile.length)];
  if (pick(20) === 0) return value;
  let at: Record<string, unknown> = message;
  for (;;) {
    const keys = Object.keys(at).filter((key) => key !== "id");
    const key =
      pick(6) === 0 || keys.length === 0 ? ["op", "sources", "extra", "0"][pick(4)]! : keys[pick(keys.length)]!;
    const inner = at[key];
    if (typeof inner === "object" && inner !== null && !(inner instanceof Blob) && pick(2) === 0) {
      at = inner as Record<string, unknown>;
      continue;
    }
    if (pick(5) === 0) delete at[key];
    else Object.defineProperty(at, key, { value, enumerable: true, configurable: true, writable: true });
    return message;
  }
}

test("arbitrary messages get one answer of one line, and the worker continues", async (t) => {
  const fetches = t.mock.method(globalThis, "fetch", async () => Promise.reject(new TypeError("no network\nhere")));
  const uncaught: unknown[] = [];
  const note = (cause: unknown): number => uncaught.push(cause);
  process.on("unhandledRejection", note);
  const answers = new Map<number, FromWorker[]>();
  let receive: (event: { data: ToWorker }) => void = () => assert.fail();
  const take = async (json: string): Promise<string> => {
    if (typeof json !== "string") throw new Error("foretoken: argument 1 is not a string");
    return "{}";
  };
  const engine: GoEngine = {
    open: async (options, { target }) => {
      for (const source of [target].flat()) await source.read(0, Math.min(4, source.size));
      return take(options);
    },
    generate: take,
    chat: take,
    trace: async () => "\"\"",
    openai: take,
    embed: take,
    bench: take,
    measure: take,
    methods: async () => "{}",
    stop: () => undefined,
    inspect: async (source) => `{"name": ${JSON.stringify(source.name)}}`,
    close: async () => undefined,
  };
  serve(
    {
      postMessage: (message) => {
        structuredClone(message);
        if (message.type === "done" || message.type === "error")
          answers.set(message.id, [...(answers.get(message.id) ?? []), message]);
      },
      addEventListener: (_type, listener) => (receive = listener),
    },
    async () => engine,
  );
  const asked = new Set<number>();
  const [, , open] = sound;
  for (const [id, sources] of [
    [-1, { calibrations: new Uint8Array(3) }],
    [-2, { target: { kind: "files", files: new Uint8Array(1) } }],
  ] as const) {
    const message = open!();
    receive({
      data: { ...message, id, sources: { ...(message.sources as object), ...sources } } as unknown as ToWorker,
    });
    asked.add(id);
  }
  const pick = random(7);
  const count = Math.ceil(100_000 * Number(process.env.FORETOKEN_SOAK ?? 0.04));
  for (let id = 1; id <= count; id++) {
    const message = sound[pick(sound.length)]!();
    if (message.op !== "start" && message.op !== "stop") message.id = id;
    let sent: unknown = pick(4) === 0 ? message : spoil(message, pick);
    try {
      sent = structuredClone(sent);
    } catch {
      continue; // a value that cannot be cloned is not sent
    }
    receive({ data: sent as ToWorker });
    const arrived = sent as Record<string, unknown> | null | undefined;
    if (
      typeof arrived === "object" &&
      arrived !== null &&
      arrived.id === id &&
      arrived.op !== "stop" &&
      arrived.op !== "start"
    )
      asked.add(id);
    if (id % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  const answered = async (ids: Iterable<number>): Promise<void> => {
    for (const end = Date.now() + 120_000; [...ids].some((id) => !answers.has(id)) && Date.now() < end;)
      await new Promise((resolve) => setTimeout(resolve, 5));
  };
  await answered(asked);
  process.off("unhandledRejection", note);
  assert.deepEqual(uncaught, []);
  let refused = 0;
  for (const id of asked) {
    const all = answers.get(id) ?? [];
    assert.equal(all.length, 1, `message ${id} is answered ${all.length} times`);
    const [one] = all;
    if (one!.type !== "error") continue;
    refused++;
    assert.match(one!.error.message, /^[^\n\r]+$/);
  }
  assert.ok(refused > count / 20 && refused < asked.size, `${refused} of ${asked.size} were refused`);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
  assert.ok(fetches.mock.callCount() >= 0);
  // The worker still answers.
  receive({ data: { op: "methods", id: count + 1 } });
  await answered([count + 1]);
  assert.equal(answers.get(count + 1)?.[0]?.type, "done");
});

test("no text becomes HTML or code anywhere in the sources", async () => {
  // APIs that parse text as HTML or run it. The sources set text only with textContent and append.
  const sinks = new RegExp(
    [
      /\b(innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|setHTML|setHTMLUnsafe)\b/,
      /\b(parseHTMLUnsafe|srcdoc|document\.write(ln)?|execCommand)\b|\beval\s*\(|\bnew Function\b|javascript:/,
      /set(Timeout|Interval)\(\s*["'`]|["'`]on[a-z]+["'`]\s*:|\bon(click|load|error)=/,
    ]
      .map((part) => part.source)
      .join("|"),
  );
  const found: string[] = [];
  const visit = async (folder: string): Promise<number> => {
    let files = 0;
    for (const entry of await fs.readdir(folder, { withFileTypes: true })) {
      const at = path.join(folder, entry.name);
      if (entry.isDirectory()) files += await visit(at);
      else if (/\.(ts|js|html)$/.test(entry.name)) {
        files++;
        (await fs.readFile(at, "utf8"))
          .split("\n")
          .forEach((line, i) => sinks.test(line) && found.push(`${at}:${i + 1}: ${line.trim()}`));
      }
    }
    return files;
  };
  assert.ok((await visit("src")) > 30);
  for (const name of (await fs.readdir(".")).filter((name) => name.endsWith(".html"))) {
    const text = await fs.readFile(name, "utf8");
    assert.doesNotMatch(
      text,
      /<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=/,
      `${name} has script or style of its own`,
    );
  }
  assert.deepEqual(found, []);
});

/**
 * Attack: install scripts of the dependencies
 * Bound: none runs
 */
test("installing the dependencies runs no script of theirs", async () => {
  const root = "..";
  const files = ["Makefile"];
  for (const folder of ["scripts", ".github/workflows"])
    for (const name of await fs.readdir(path.join(root, folder)).catch(() => [])) files.push(`${folder}/${name}`);
  let found = 0;
  for (const file of files) {
    if (!(await fs.stat(path.join(root, file))).isFile()) continue;
    for (const line of (await fs.readFile(path.join(root, file), "utf8")).split("\n")) {
      if (!/\bnpm (ci|install|i)\b/.test(line) || /^\s*(#|\/\/)/.test(line)) continue;
      found++;
      assert.match(line, /--ignore-scripts/, `${file}: ${line.trim()}`);
    }
  }
  assert.ok(found >= 4, `${found} installations found`);
});
