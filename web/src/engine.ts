/**
 * The JavaScript API: a pair of models running in a worker.
 *
 * ```ts
 * const engine = await Engine.load({ target: "target.gguf", draft: "draft.gguf" });
 * const run = engine.generate({ prompt: "func main() {", max_tokens: 64 });
 * for await (const round of run) process(round.text);
 * console.log((await run.result).stats.acceptance_length);
 * ```
 */
import type { Channel, DeviceChoice, EngineInfo, FromWorker, GenerateRequest, Progress, Result, RoundEvent, SourceSpec, ToWorker, WireError } from "./protocol.ts";

export type * from "./protocol.ts";

/** What went wrong, for callers who act on it; the message is for people. */
export type EngineErrorCode = "load" | "generate" | "inspect" | "busy" | "crash" | "aborted" | "disposed";

/** Every failure of an {@link Engine}. The message is one line that names file, field and reason. */
export class EngineError extends Error {
  constructor(
    readonly code: EngineErrorCode,
    message: string,
    /** The engine's own, finer code, when it gave one. */
    readonly detail?: string,
  ) {
    super(message);
    this.name = "EngineError";
  }
}

/** A model to load: a URL relative to the page, or a file the user picked. */
export type ModelSource = string | URL | File | Blob;

/** A worker, or what a test puts in its place. */
export interface WorkerLike extends Channel<FromWorker, ToWorker> {
  addEventListener(type: "message", listener: (event: { data: FromWorker }) => void): void;
  addEventListener(type: "error" | "messageerror", listener: (event: { message?: string }) => void): void;
  terminate(): void;
}

export interface LoadOptions {
  target: ModelSource;
  /** Without a draft the policies are "none" and "ngram". */
  draft?: ModelSource | null | undefined;
  /** "auto" takes WebGPU and falls back to the CPU with a note; that is the default. */
  device?: DeviceChoice | undefined;
  /** Positions of the KV cache; the model's own limit unless told. */
  context?: number | undefined;
  kv?: "f32" | "f16" | undefined;
  onProgress?: ((progress: Progress) => void) | undefined;
  /** Aborting ends the worker; `load` rejects with code "aborted". */
  signal?: AbortSignal | undefined;
  /** Makes the worker; for tests. */
  worker?: (() => WorkerLike) | undefined;
}

/** The settings a request gets where it leaves them out. */
export const DEFAULTS: Omit<GenerateRequest, "prompt"> = {
  max_tokens: 64,
  temperature: 0,
  seed: 1,
  policy: "eagle2",
  depth: 4,
  top_k: 4,
  nodes: 16,
  verifier: "match",
};

/** A running generation: iterate it for its rounds (leaving the loop stops it), await `result` for the whole. */
export interface Generation extends AsyncIterable<RoundEvent> {
  readonly result: Promise<Result>;
  /** Ends it within a round; `result` then resolves with finish "aborted". */
  stop(): void;
}

interface Pending {
  update(json: string): void;
  done(json: string): void;
  fail(error: EngineError): void;
  code: EngineErrorCode;
}

/** A target model, and perhaps its draft, loaded in a worker of their own. */
export class Engine {
  /** Device, models and kernels, as they were loaded. */
  readonly info!: EngineInfo;
  readonly #worker: WorkerLike;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Set<(error: EngineError) => void>();
  #next = 1;
  #generating = false;
  #ended: EngineError | undefined;

  private constructor(worker: WorkerLike) {
    this.#worker = worker;
    worker.addEventListener("message", ({ data }) => this.#receive(data));
    worker.addEventListener("error", (event) => this.#end(new EngineError("crash", `the worker failed: ${event.message || "its script could not be loaded"}`)));
    worker.addEventListener("messageerror", () => this.#end(new EngineError("crash", "the worker sent a message that cannot be read")));
  }

  /** Starts a worker and loads the models into it. */
  static async load(options: LoadOptions): Promise<Engine> {
    const { signal } = options;
    if (signal?.aborted) throw new EngineError("aborted", "loading was aborted");
    const engine = new Engine((options.worker ?? spawn)());
    const abort = (): void => engine.#end(new EngineError("aborted", "loading was aborted"));
    signal?.addEventListener("abort", abort);
    try {
      const opened = engine.#call<EngineInfo>(
        "load",
        (id) => ({
          op: "open",
          id,
          options: {
            device: options.device ?? "auto",
            ...(options.context === undefined ? {} : { context: options.context }),
            ...(options.kv === undefined ? {} : { kv: options.kv }),
          },
          target: specOf(options.target),
          draft: options.draft ? specOf(options.draft) : null,
        }),
        (json) => options.onProgress?.(JSON.parse(json) as Progress),
      );
      (engine as { info: EngineInfo }).info = await opened;
      return engine;
    } catch (cause) {
      engine.#end(new EngineError("disposed", "the engine failed to load"));
      throw cause;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Decodes; one at a time. Settings left out are those of {@link DEFAULTS}, without a draft policy "none". */
  generate(request: { prompt: string } & Partial<GenerateRequest>): Generation {
    const full: GenerateRequest = { ...DEFAULTS, ...(this.info.draft ? {} : { policy: "none" }), ...request };
    const queue = new RoundQueue(() => this.stop());
    let result: Promise<Result>;
    if (this.#generating) {
      result = Promise.reject(new EngineError("busy", "the engine is generating already; stop it or wait for its result"));
    } else {
      this.#generating = true;
      result = this.#call<Result>(
        "generate",
        (id) => ({ op: "generate", id, request: full }),
        (json) => queue.push(parseRound(json)),
      ).finally(() => (this.#generating = false));
    }
    result.then(
      () => queue.end(),
      (cause: unknown) => queue.end(cause),
    );
    return { result, stop: () => this.stop(), [Symbol.asyncIterator]: () => queue };
  }

  /** Ends the running generation, if there is one, within a round. */
  stop(): void {
    if (this.#generating && !this.#ended) this.#worker.postMessage({ op: "stop" });
  }

  /** Metadata and tensors of a model file, as JSON data, without loading it. */
  inspect(source: ModelSource): Promise<unknown> {
    return this.#call("inspect", (id) => ({ op: "inspect", id, source: specOf(source) }));
  }

  /** Calls back when the engine ends by itself: the worker or the program in it crashed. */
  onCrash(listener: (error: EngineError) => void): void {
    this.#listeners.add(listener);
  }

  /** Frees the models and ends the worker. What is pending rejects with code "disposed". */
  async dispose(): Promise<void> {
    if (this.#ended) return;
    this.stop();
    // A worker busy in one long step cannot answer; it is ended regardless.
    const closed = this.#call("disposed", (id) => ({ op: "close", id })).catch(() => undefined);
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 1000))]);
    this.#end(new EngineError("disposed", "the engine was disposed"));
  }

  #call<T>(code: EngineErrorCode, message: (id: number) => ToWorker, update: (json: string) => void = () => undefined): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      this.#pending.set(id, { update, done: (json) => resolve(JSON.parse(json) as T), fail: reject, code });
      this.#worker.postMessage(message(id));
    });
  }

  #receive(data: FromWorker): void {
    if (data.type === "crash") {
      this.#end(new EngineError("crash", data.error.message, data.error.code));
      return;
    }
    const pending = this.#pending.get(data.id);
    if (!pending) return;
    if (data.type === "update") {
      pending.update(data.json);
      return;
    }
    this.#pending.delete(data.id);
    if (data.type === "done") pending.done(data.json);
    else pending.fail(engineError(pending.code, data.error));
  }

  /** Ends the worker and rejects everything that waits for it. */
  #end(error: EngineError): void {
    if (this.#ended) return;
    this.#ended = error;
    this.#worker.terminate();
    const waiting = [...this.#pending.values()];
    this.#pending.clear();
    for (const pending of waiting) pending.fail(error);
    if (error.code === "crash") for (const listener of this.#listeners) listener(error);
  }
}

/** Rounds between the worker that makes them and the loop that takes them. */
class RoundQueue implements AsyncIterableIterator<RoundEvent> {
  readonly #rounds: RoundEvent[] = [];
  #ended = false;
  #error: unknown;
  #wake: (() => void) | undefined;
  readonly #abandon: () => void;

  constructor(abandon: () => void) {
    this.#abandon = abandon;
  }

  push(round: RoundEvent): void {
    this.#rounds.push(round);
    this.#wake?.();
  }

  end(error?: unknown): void {
    this.#ended = true;
    this.#error = error;
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<RoundEvent>> {
    for (;;) {
      const round = this.#rounds.shift();
      if (round) return { done: false, value: round };
      if (this.#error) throw this.#error;
      if (this.#ended) return { done: true, value: undefined };
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** A loop that is left early ends the generation. */
  async return(): Promise<IteratorResult<RoundEvent>> {
    if (!this.#ended) this.#abandon();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Go writes a list it never filled as null. */
function parseRound(json: string): RoundEvent {
  const round = JSON.parse(json) as RoundEvent;
  round.tokens ??= [];
  const tree = (round.tree ??= {} as RoundEvent["tree"]);
  for (const list of ["tokens", "texts", "parents", "depths", "scores", "accepted"] as const) (tree as Record<typeof list, unknown>)[list] ??= [];
  return round;
}

function engineError(code: EngineErrorCode, error: WireError): EngineError {
  return new EngineError(code, error.message, error.code);
}

/** Resolves URLs here: relative ones belong to the page, not to the worker's script. */
function specOf(source: ModelSource): SourceSpec {
  if (source instanceof Blob) return { kind: "file", file: source, name: source instanceof File ? source.name : "file" };
  return { kind: "url", url: new URL(source, globalThis.document?.baseURI).href };
}

function spawn(): WorkerLike {
  const url = new URL("./worker.js", import.meta.url);
  if (url.origin === location.origin) return new Worker(url, { type: "module", name: "foretoken" }) as unknown as WorkerLike;
  // A page may load this module from another origin but not start a worker
  // there; a worker of its own that imports the script is allowed.
  const shim = URL.createObjectURL(new Blob([`import ${JSON.stringify(url.href)};`], { type: "text/javascript" }));
  return new Worker(shim, { type: "module", name: "foretoken" }) as unknown as WorkerLike;
}
