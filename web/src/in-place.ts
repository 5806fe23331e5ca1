/**
 * `foretoken/in-place`: the same API with the engine in the importing scope. It serves scopes that cannot start a
 * worker or use dynamic imports, such as an extension's service worker. Decoding blocks the thread of that scope,
 * so pages should import `foretoken`, which decodes in a worker.
 *
 * ```ts
 * import { Foretoken } from "foretoken/in-place";
 * const engine = await Foretoken.load();
 * ```
 *
 * Downloads are not cached: browsers let only workers of pages write to the private file system.
 *
 * @packageDocumentation
 */
import "foretoken:wasm_exec";
import type { Foretoken as Entry } from "./engine/api.ts";
import { withBuiltin } from "./engine/builtin.ts";
import { Engine } from "./engine/engine.ts";
import type { FromWorker, GoEngine, ToWorker, WireError } from "./protocol/protocol.ts";
import { prepare, startProgram } from "./worker/program.ts";
import { serve } from "./worker/serve.ts";

export * from "./engine/api.ts";
export { BUILTIN_HEAD, BUILTIN_PAIR } from "./engine/builtin.ts";

/** Loads engines as `foretoken` does, but runs them in this scope. */
export const Foretoken: Entry = {
  load: async (options) =>
    Engine.load(options, (checked) => ({ worker: () => new InPlace() as unknown as Worker, ...withBuiltin(checked) })),
};

/** A running Go program and the engine to notify if it crashes. */
interface Running {
  go: GoEngine;
  listener: { crashed: (error: WireError) => void };
}

/** Programs of disposed engines. A program cannot be ended from outside, so the next engine reuses one. */
const idle: Running[] = [];
/** Serialises starts: each program installs its engine under the same global name. */
let starting: Promise<unknown> = Promise.resolve();

function program(): Promise<Running> {
  const listener: Running["listener"] = { crashed: () => undefined };
  const next = starting.then(() =>
    startProgram({
      wasm: new URL("./foretoken.wasm", import.meta.url).href,
      support: async () => undefined,
      crashed: (error) => listener.crashed(error),
    }),
  );
  starting = next.catch(() => undefined);
  return next.then((go) => ({ go, listener }));
}

type Listener = (event: { data?: FromWorker; message?: string }) => void;

/** A stand-in for a worker that runs on the caller's thread. */
class InPlace {
  readonly #listeners: Listener[] = [];
  readonly #inbox: ((event: { data: ToWorker }) => void)[] = [];
  #terminated = false;
  #running: Running | undefined;

  constructor() {
    const emit = (data: FromWorker): void =>
      queueMicrotask(() => !this.#terminated && this.#listeners.forEach((listener) => listener({ data })));
    const start = async (): Promise<GoEngine> => {
      const running = idle.pop() ?? (await program());
      if (this.#terminated)
        idle.push(running); // aborted during the start
      else this.#running = running;
      running.listener.crashed = (error) => {
        this.#running = undefined;
        emit({ type: "crash", error });
      };
      return running.go;
    };
    serve({ postMessage: emit, addEventListener: (_type, listener) => this.#inbox.push(listener) }, start, prepare);
  }

  postMessage(data: ToWorker): void {
    queueMicrotask(() => this.#inbox.forEach((listener) => listener({ data })));
  }

  addEventListener(type: string, listener: Listener): void {
    if (type === "message") this.#listeners.push(listener);
  }

  terminate(): void {
    this.#terminated = true;
    const running = this.#running;
    this.#running = undefined;
    if (!running) return;
    running.go.stop();
    running.go.close().then(
      () => idle.push(running),
      () => undefined,
    );
  }
}
