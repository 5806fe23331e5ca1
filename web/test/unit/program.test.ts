/** A Go program that ends at its start or later is reported with its reason. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
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
