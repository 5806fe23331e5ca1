/**
 * `foretoken/in-place`: the same API with the engine in the scope that imports it, for scopes that cannot start a
 * worker or import code later, such as an extension's service worker. What it decodes it decodes on that
 * scope's own thread: a page should take `foretoken` instead, whose engine is in a worker.
 *
 * ```ts
 * import { Foretoken } from "foretoken/in-place";
 * const engine = await Foretoken.load();
 * ```
 *
 * Downloads are not kept here: browsers let only workers of pages write such files.
 *
 * @packageDocumentation
 */
import "foretoken:wasm_exec";
import type { Foretoken as Entry } from "./api.ts";
import { Engine } from "./engine.ts";
import type { FromWorker, GoEngine, ToWorker, WireError } from "./protocol.ts";
import { prepare, startProgram } from "./runtime.ts";
import { serve } from "./serve.ts";

export * from "./api.ts";

/** Where everything begins: `load` as in `foretoken`, with the engine in this scope. */
export const Foretoken: Entry = { load: async (options = {}) => Engine.load({ worker: () => new InPlace() as unknown as Worker, ...options }) };

/** A running program, and whom it serves. */
interface Running {
  go: GoEngine;
  told: { crashed: (error: WireError) => void };
}

/** Programs whose engine was disposed: a program cannot be ended from outside, so the next engine takes it. */
const idle: Running[] = [];
/** Programs put themselves on the global scope when they start, one after the other. */
let starting: Promise<unknown> = Promise.resolve();

function program(): Promise<Running> {
  const told: Running["told"] = { crashed: () => undefined };
  const next = starting.then(() => startProgram({ wasm: new URL("./foretoken.wasm", import.meta.url).href, support: async () => undefined, crashed: (error) => told.crashed(error) }));
  starting = next.catch(() => undefined);
  return next.then((go) => ({ go, told }));
}

type Listener = (event: { data?: FromWorker; message?: string }) => void;

/** A worker without a thread. */
class InPlace {
  readonly #listeners: Listener[] = [];
  readonly #inside: ((event: { data: ToWorker }) => void)[] = [];
  #over = false;
  #running: Running | undefined;

  constructor() {
    const tell = (data: FromWorker): void => queueMicrotask(() => !this.#over && this.#listeners.forEach((listener) => listener({ data })));
    const start = async (): Promise<GoEngine> => {
      const running = idle.pop() ?? (await program());
      if (this.#over) idle.push(running); // it was aborted meanwhile
      else this.#running = running;
      running.told.crashed = (error) => {
        this.#running = undefined;
        tell({ type: "crash", error });
      };
      return running.go;
    };
    serve({ postMessage: tell, addEventListener: (_type, listener) => this.#inside.push(listener) }, start, prepare);
  }

  postMessage(data: ToWorker): void {
    queueMicrotask(() => this.#inside.forEach((listener) => listener({ data })));
  }

  addEventListener(type: string, listener: Listener): void {
    if (type === "message") this.#listeners.push(listener);
  }

  terminate(): void {
    this.#over = true;
    const running = this.#running;
    this.#running = undefined;
    if (!running) return;
    running.go.stop();
    running.go.close().then(() => idle.push(running), () => undefined);
  }
}
