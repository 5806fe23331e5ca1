/**
 * The worker of the npm package: bundled as one file without imports. Bundlers recognise the expression that names
 * the WebAssembly file.
 */
import "foretoken:wasm_exec";
import { proveAlive } from "./alive.ts";
import type { Channel, FromWorker, ToWorker } from "../protocol/protocol.ts";
import { prepare, startProgram } from "./program.ts";
import { serve } from "./serve.ts";

const scope = globalThis as unknown as Channel<ToWorker, FromWorker>;

proveAlive(scope);
serve(
  scope,
  () =>
    startProgram({
      wasm: new URL("./foretoken.wasm", import.meta.url).href,
      support: async () => undefined,
      crashed: (error) => scope.postMessage({ type: "crash", error }),
    }),
  prepare,
);
