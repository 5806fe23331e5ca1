/**
 * The package's worker: one file without imports, that names the program by an expression that bundlers follow.
 */
import "foretoken:wasm_exec";
import { hold } from "../life.ts";
import type { Channel, FromWorker, ToWorker } from "../protocol.ts";
import { prepare, startProgram } from "../runtime.ts";
import { serve } from "../serve.ts";

const scope = globalThis as unknown as Channel<ToWorker, FromWorker>;

hold(scope);
serve(scope, () => startProgram({ wasm: new URL("./foretoken.wasm", import.meta.url).href, support: async () => undefined, crashed: (error) => scope.postMessage({ type: "crash", error }) }), prepare);
