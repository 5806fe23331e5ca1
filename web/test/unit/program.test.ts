/** The download of the Go program; one that ends at its start or later is reported with its reason. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { WireError } from "../../src/protocol/protocol.ts";
import { startProgram } from "../../src/worker/program.ts";

const scope = globalThis as unknown as Record<string, unknown> & {
  fs: { writeSync(fd: number, bytes: Uint8Array): number };
};
const before = { fs: scope.fs, Go: scope.Go, fetch: scope.fetch };
afterEach(() => void Object.assign(scope, before));

/** Starts a program that prints `output` and ends, and returns the error of its start and the reported crash. */
async function start(output: string): Promise<{ error: unknown; crash: WireError | undefined }> {
  const empty = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
  scope.fs = { writeSync: () => 0 };
  scope.fetch = async () => new Response(empty, { headers: { "Content-Type": "application/wasm" } });
  scope.Go = class {
    importObject = {};
    run = async (): Promise<void> => void scope.fs.writeSync(2, new TextEncoder().encode(output));
  };
  let crash: WireError | undefined;
  const started = startProgram({ wasm: "x.wasm", support: async () => undefined, crashed: (e) => (crash = e) });
  return { error: await started.catch((cause: unknown) => cause), crash };
}

for (const [what, output, reason] of [
  [
    "memory refused",
    "runtime: out of memory: cannot allocate 524288-byte block\nfatal error: out of memory\n\nruntime stack:\n",
    /^the engine stopped: the browser refused it more memory; close other tabs/,
  ],
  ["a panic", "panic: no\n\ngoroutine 1:\n", /^the engine stopped: panic: no$/],
  ["silence", "", /^the engine stopped: without a message$/],
] as const)
  test(`${what} at the start is the error of the start, and a crash`, async () => {
    const { error, crash } = await start(output);
    assert.ok(error instanceof Error);
    assert.match(error.message, reason);
    assert.equal((error as { code?: string }).code, "crash");
    assert.match(crash?.message ?? "", reason);
  });

test("a file of the program that another site keeps from the page is named, with the header", async () => {
  scope.fs = { writeSync: () => 0 };
  const refused = async () => {
    throw new TypeError("Failed to fetch");
  };
  scope.Go = class {
    importObject = {};
  };
  const wasm = "https://far.test/x.wasm";
  for (const [name, fetch, support] of [
    ["foretoken.wasm", refused, async () => undefined],
    ["wasm_exec.js", async () => new Response(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0)), refused],
  ] as const) {
    scope.fetch = fetch;
    await assert.rejects(startProgram({ wasm, support, crashed: () => undefined }), {
      code: "network",
      message: `${name}: download: TypeError: Failed to fetch; ` +
        "its server must let other sites read it (CORS: Access-Control-Allow-Origin)",
    });
  }
});

test("a compressed copy is taken where the server compresses nothing", async () => {
  const empty = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
  const zipped = gzipSync(empty);
  const wasm = { "Content-Type": "application/wasm" };
  for (const [what, answers, asked] of [
    ["plain", { "x.wasm": [empty, wasm], "x.wasm.gz": [zipped, {}] }, ["x.wasm", "x.wasm.gz"]],
    ["encoded", { "x.wasm": [empty, { ...wasm, "Content-Encoding": "br" }], "x.wasm.gz": [zipped, {}] }, ["x.wasm"]],
    ["without copies", { "x.wasm": [empty, wasm] }, ["x.wasm", "x.wasm.gz", "x.wasm"]],
    [
      "a server that names the copy's encoding",
      { "x.wasm": [empty, wasm], "x.wasm.gz": [empty, { "Content-Encoding": "gzip" }] },
      ["x.wasm", "x.wasm.gz"],
    ],
    [
      "a damaged copy",
      { "x.wasm": [empty, wasm], "x.wasm.gz": [Uint8Array.of(1, 2, 3), {}] },
      ["x.wasm", "x.wasm.gz", "x.wasm"],
    ],
  ] as unknown as [string, Record<string, [Uint8Array, Record<string, string>]>, string[]][]) {
    const seen: string[] = [];
    scope.fs = { writeSync: () => 0 };
    scope.fetch = async (url: string) => {
      const found = answers[url];
      if (!url.endsWith(".br")) seen.push(url);
      const response = found
        ? new Response(found[0] as BodyInit, { headers: found[1] })
        : new Response(null, { status: 404 });
      return Object.defineProperty(response, "type", { value: "basic" });
    };
    let ran = 0;
    scope.Go = class {
      importObject = {};
      run = async (): Promise<void> => void ran++;
    };
    const started = startProgram({
      wasm: "x.wasm",
      packed: true,
      support: async () => undefined,
      crashed: () => undefined,
    });
    await assert.rejects(started, /the engine stopped/); // the program is empty
    assert.deepEqual([ran, seen], [1, asked], what);
  }
});
