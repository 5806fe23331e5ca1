/**
 * The worker of the site: loads the Go program and serves it. It evaluates no code from text, so it runs under a
 * strict content security policy that allows 'wasm-unsafe-eval'.
 */
import { proveAlive } from "./alive.ts";
import type { Channel, FromWorker, ToWorker } from "../protocol/protocol.ts";
import { prepare, startProgram } from "./program.ts";
import { serve } from "./serve.ts";

const scope = globalThis as unknown as Channel<ToWorker, FromWorker>;
const siblingURL = (file: string): string => new URL(file, import.meta.url).href;

proveAlive(scope);
serve(
  scope,
  () =>
    startProgram({
      wasm: siblingURL("./foretoken.wasm"),
      packed: true,
      support: () => import(siblingURL("./wasm_exec.js")),
      crashed: (error) => scope.postMessage({ type: "crash", error }),
    }),
  prepare,
);
