/**
 * The worker the models run in: loads the Go program and serves it. Nothing
 * here is evaluated from text, so that a page with a strict content security
 * policy can host it ('wasm-unsafe-eval' is all it needs).
 */
import { hold } from "./life.ts";
import type { Channel, FromWorker, ToWorker } from "./protocol.ts";
import { prepare, startProgram } from "./runtime.ts";
import { serve } from "./serve.ts";

const scope = globalThis as unknown as Channel<ToWorker, FromWorker>;
const beside = (file: string): string => new URL(file, import.meta.url).href;

hold(scope);
serve(scope, () => startProgram({ wasm: beside("./foretoken.wasm"), support: () => import(beside("./wasm_exec.js")), crashed: (error) => scope.postMessage({ type: "crash", error }) }), prepare);
