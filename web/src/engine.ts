/// <reference lib="esnext.disposable" preserve="true" />
/**
 * The JavaScript API: a pair of models running in a worker; foretoken.ts is what others import.
 */
import { BUILTIN_PAIR } from "./builtin.ts";
import type { Answerable, Conversation } from "./conversation.ts";
import { abortable, aborted, ForetokenError, type ForetokenErrorCode } from "./errors.ts";
import { failed, type GenerateOptions, type Generation, parseRound, RoundQueue } from "./generation.ts";
import { HUB, resolve } from "./hub.ts";
import { configOf, DEFAULT_METHOD } from "./methods.ts";
import type { Answerer, ChatCompletionRequest, ChatCompletions, CompletionOptions } from "./openai.ts";
import type {
  BenchPlan, BenchReport, BenchUpdate, Catalog, Channel, ChatAction, ChatOptions, ChatReply, ChatState, CostReport, DeviceChoice, EngineInfo, FromWorker, GenerateRequest, Inspection, Keep, Measurement, ProfileReport, Progress, Quantise, Result, Sources, SourceSpec, Stats, ToWorker, WireError,
} from "./protocol.ts";
import { type EngineStats, Totals } from "./stats.ts";

export type * from "./protocol.ts";
export type * from "./openai.ts";
export type { Conversation } from "./conversation.ts";
export { ForetokenError, type ForetokenErrorCode } from "./errors.ts";
export type { GenerateOptions, Generation } from "./generation.ts";
export type { EngineStats } from "./stats.ts";

/**
 * A file to load: an address relative to the page, a name on a hub
 * (`owner/repo/file.gguf`, `owner/repo@revision/file.gguf`), or a file the user
 * picked. `#sha256=…` after an address is the checksum the file must have.
 *
 * For a model the address of any part stands for all parts of a split GGUF file,
 * that of `model.safetensors` or its index for the whole checkpoint, and `owner/repo`
 * for a repository that has one model.
 */
export type FileSource = string | URL | File | Blob;

/** A model to load: one file, or all of its files. */
export type ModelSource = FileSource | readonly FileSource[];

/** A worker, or what stands in its place. */
export interface WorkerLike extends Channel<FromWorker, ToWorker> {
  addEventListener(type: "message", listener: (event: { data: FromWorker }) => void): void;
  addEventListener(type: "error" | "messageerror", listener: (event: { message?: string }) => void): void;
  terminate(): void;
}

/** What {@link Foretoken.load} loads, and onto what. */
export interface LoadOptions {
  /** The model whose text is wanted; the built-in pair, and what was fitted to it, where it is left out. */
  target?: ModelSource | undefined;
  /** The small model that drafts. Without it only methods that need none can be used. */
  draft?: ModelSource | null | undefined;
  /** An EAGLE-3 head of the target (safetensors), with the config.json published beside it. */
  eagle3?: FileSource | null | undefined;
  eagle3Config?: FileSource | null | undefined;
  /** JSON files of `foretoken calibrate` and `foretoken train` for the pair; "builtin": those of the built-in pair. */
  calibrations?: "builtin" | readonly FileSource[] | undefined;
  /** Where names on a hub lead; https://huggingface.co unless told. */
  hub?: string | undefined;
  /** Whether downloads are kept in this browser, and checked for changes on the server; "auto" unless told. */
  cache?: Keep | undefined;
  /** Stores matrices in another type than the files do. */
  quantise?: Quantise | undefined;
  /** The largest tree that can be verified, the root included; 64 unless told. */
  maxNodes?: number | undefined;
  /** "auto" takes WebGPU and falls back to the CPU with a note; that is the default. */
  device?: DeviceChoice | undefined;
  /** Positions of the KV cache; the model's own limit, at most 4096, unless told. */
  context?: number | undefined;
  /** Lets `context` be longer than the models were trained for, to time long contexts: the text there is worth nothing. */
  beyondTraining?: boolean | undefined;
  /** How keys and values are stored; q8 takes a quarter of the memory of f32. */
  kv?: "f32" | "f16" | "q8" | undefined;
  /** Bytes that the models may take on the device. Default: as many as it gives. */
  maxMemory?: number | undefined;
  /** Of the likeliest tokens, how many can be told of every position (`top_logprobs`); 2 unless told, at most 64. */
  candidates?: number | undefined;
  /** Seconds that a call waits for the device before it is taken to hang, and opened anew; 30 unless told. */
  deviceTimeout?: number | undefined;
  /** Told of each step of loading; also of a lost device, and of each step of loading again then. */
  onProgress?: ((progress: Progress) => void) | undefined;
  /** Aborting ends the worker; `load` rejects with code "aborted". */
  signal?: AbortSignal | undefined;
  /**
   * The worker to run in: the address of this package's worker.js where it does not lie beside this module (it finds
   * foretoken.wasm beside itself), or a function that starts one. The module finds its own worker unless told.
   */
  worker?: string | URL | (() => Worker) | undefined;
}

/** What a benchmark or a measurement may be told of. */
export interface MeasureOptions {
  /** Told how far it is. */
  onUpdate?: ((update: BenchUpdate) => void) | undefined;
  /** Aborting ends it within a round; it rejects with code "aborted". */
  signal?: AbortSignal | undefined;
}

/** A running benchmark. */
export interface BenchRun {
  /** The report; of what was measured until then when it was stopped. */
  readonly result: Promise<BenchReport>;
  /** Ends it within a round. */
  stop(): void;
}

interface Pending {
  update(json: string): void;
  done(json: string): void;
  fail(error: ForetokenError): void;
}

/** `Symbol.asyncDispose` is {@link Engine.dispose}, where the browser has it: `await using engine = await Foretoken.load()`. */
export interface Engine extends AsyncDisposable {}

/** A target model, and perhaps its draft, loaded in a worker of their own; {@link Foretoken.load} makes it. */
export class Engine {
  /** Device, models and kernels, as they were loaded. */
  readonly info!: EngineInfo;
  readonly #worker: WorkerLike;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Set<(error: ForetokenError) => void>();
  readonly #totals = new Totals();
  #opening: { id: number; update(json: string): void } | undefined;
  #method = DEFAULT_METHOD;
  #next = 1;
  #work: object | undefined;
  #conversation: Conversation | undefined;
  #completions: Promise<ChatCompletions> | undefined;
  #ended: ForetokenError | undefined;

  private constructor(worker: WorkerLike) {
    this.#worker = worker;
    worker.addEventListener("message", ({ data }) => this.#receive(data));
    worker.addEventListener("error", (event) => this.#end(new ForetokenError("crash", `the worker failed: ${event.message || "its script could not be loaded"}`)));
    worker.addEventListener("messageerror", () => this.#end(new ForetokenError("crash", "the worker sent a message that cannot be read")));
  }

  /** Starts a worker and loads the models into it. @internal */
  static async load(given: LoadOptions = {}): Promise<Engine> {
    if (!given.target && given.draft) throw new ForetokenError("bad_option", "target: a draft needs a target, and none is given", "target");
    const options = given.target ? { ...given, target: given.target } : { ...BUILTIN_PAIR, ...defined(given), target: BUILTIN_PAIR.target };
    const { signal } = options;
    if (signal?.aborted) throw aborted(signal);
    const sources = sourcesOf(options); // what is wrong with a name is told before anything is started
    const engine = new Engine(start(options.worker));
    const abort = (): void => engine.#end(aborted(signal));
    signal?.addEventListener("abort", abort);
    const progress = (json: string): void => options.onProgress?.(JSON.parse(json) as Progress);
    try {
      const opened = engine.#call<EngineInfo>(
        (id) => ({
          op: "open",
          id: (engine.#opening = { id, update: progress }).id,
          options: defined({
            device: options.device ?? "auto",
            context: options.context,
            beyond_training: options.beyondTraining,
            kv: options.kv,
            max_memory: options.maxMemory,
            candidates: options.candidates,
            device_timeout: options.deviceTimeout,
            max_nodes: options.maxNodes,
            builtin_calibrations: options.calibrations === "builtin" || undefined,
            quantise: options.quantise,
          }),
          sources,
          lock: globalThis.navigator?.locks && globalThis.crypto?.randomUUID?.(), // neither is there in pages of plain http
        }),
        progress,
      );
      (engine as { info: EngineInfo }).info = await opened;
      return engine;
    } catch (cause) {
      engine.#end(new ForetokenError("disposed", "the engine failed to load"));
      throw cause;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  /**
   * Continues a prompt; one at a time. Settings left out are those of {@link DEFAULTS}, or the
   * method's own where `policy` names another than the default's; a default that
   * needs a draft is "none" where there is none.
   *
   * ```ts
   * const run = engine.generate("func main() {", { max_tokens: 64 });
   * for await (const round of run) show(round.text);
   * console.log((await run.result).stats.acceptance_length);
   * ```
   */
  generate(prompt: string, options: GenerateOptions = {}): Generation {
    const { signal, ...request } = options;
    return this.#rounds<Result>((id) => ({ op: "generate", id, request: this.#possible({ ...request, prompt }) }), request, signal, (result) => result.stats);
  }

  /**
   * Begins a conversation, in place of the one before: an engine has one at a time. What
   * the models hold of it is kept from answer to answer, so each costs the prefill of what is new.
   * `chat.completions` answers whole lists of messages, in the shape of OpenAI's API.
   */
  readonly chat: ((options?: ChatOptions) => Promise<Conversation>) & { readonly completions: Pick<ChatCompletions, "create"> } = Object.assign((options?: ChatOptions) => this.#converse(options), {
    completions: {
      create: (async (request: ChatCompletionRequest, options?: CompletionOptions) => {
        // Pages that do not ask for them do not load their code.
        this.#completions ??= import("./openai.ts").then((module) => new module.ChatCompletions(this.#answerer()));
        return (await this.#completions).create(request, options);
      }) as ChatCompletions["create"],
    },
  });

  /** What answers lists of messages, beside the conversation there may be. */
  #answerer(): Answerer {
    const engine = this;
    return {
      get model() {
        return engine.info.target.name;
      },
      get fingerprint() {
        const { backend, adapter } = engine.info.device;
        return `${backend} ${adapter}`.trim();
      },
      answer: (chat, request) => engine.#answers((id) => ({ op: "chat", id, action: { do: "complete", ...chat, request: engine.#possible(request) } }), request),
    };
  }

  #answers(message: (id: number) => ToWorker, request: Omit<GenerateRequest, "prompt">, signal?: AbortSignal, keep?: (state: ChatState) => void): Generation<ChatReply> {
    return this.#rounds<ChatReply>(message, request, signal, (reply) => {
      keep?.(reply);
      return reply.result.stats;
    });
  }

  async #converse(options: ChatOptions = {}): Promise<Conversation> {
    const act = <R>(action: ChatAction): Promise<R> => this.#exclusive(() => this.#call<R>((id) => ({ op: "chat", id, action })));
    const [state, { Conversation }] = await Promise.all([act<ChatState>({ do: "open", ...options }), import("./conversation.ts")]);
    const conversation: Conversation = new Conversation(state, (action: Answerable, signal, keep) => {
      if (this.#conversation !== conversation) return failed(new ForetokenError("disposed", "the conversation has ended: another one was begun"));
      return this.#answers((id) => ({ op: "chat", id, action: { ...action, request: this.#possible(action.request) } }), action.request, signal, keep);
    });
    this.#conversation = conversation;
    return conversation;
  }

  /** The request, but for a default method that needs a draft where there is none. */
  #possible<R extends Omit<GenerateRequest, "prompt">>(request: R): R {
    const without = request.policy === undefined && !this.info.draft && configOf(request).uses_draft;
    return without ? { ...request, policy: "none" } : request;
  }

  #rounds<R>(message: (id: number) => ToWorker, request: Omit<GenerateRequest, "prompt">, signal: AbortSignal | undefined, statsOf: (result: R) => Stats): Generation<R> {
    if (signal?.aborted) return failed(aborted(signal));
    const work = {};
    const stop = (): void => this.#stop(work);
    const queue = new RoundQueue(stop);
    const result = this.#exclusive(() => this.#call<R>(message, (json) => queue.push(parseRound(json))), work, signal).then((all) => {
      this.#method = this.#possible(request).policy ?? DEFAULT_METHOD;
      this.#totals.add(statsOf(all));
      if (signal?.aborted) throw aborted(signal);
      return all;
    });
    result.then(
      () => queue.end(),
      (cause: unknown) => queue.end(cause),
    );
    return { result, stop, [Symbol.asyncIterator]: () => queue };
  }

  /** What was generated since loading, and where the time went. */
  stats(): EngineStats {
    return this.#totals.of(this.info, this.#method);
  }

  /** Measures methods against plain decoding, interleaved prompt by prompt; not while it generates. */
  bench(plan: BenchPlan, options: MeasureOptions = {}): BenchRun {
    const work = {};
    return { result: this.#measure((id) => ({ op: "bench", id, plan }), options, work), stop: () => this.#stop(work) };
  }

  /** Times passes of both models; not while it generates. */
  costs(measurement: Omit<Measurement, "what"> = {}, options: MeasureOptions = {}): Promise<CostReport> {
    return this.#measure((id) => ({ op: "measure", id, measurement: { what: "costs", ...measurement } }), options);
  }

  /** Tells where time goes, kernel by kernel and phase by phase; not while it generates. */
  profile(measurement: Omit<Measurement, "what"> = {}, options: MeasureOptions = {}): Promise<ProfileReport> {
    return this.#measure((id) => ({ op: "measure", id, measurement: { what: "profile", ...measurement } }), options);
  }

  async #measure<R>(message: (id: number) => ToWorker, { onUpdate, signal }: MeasureOptions, work: object = {}): Promise<R> {
    if (signal?.aborted) throw aborted(signal);
    const report = await this.#exclusive(() => this.#call<R>(message, (json) => onUpdate?.(JSON.parse(json) as BenchUpdate)), work, signal);
    if (signal?.aborted) throw aborted(signal);
    return report;
  }

  /** The methods the loaded program has; {@link METHODS} are those the page was built with. */
  methods(): Promise<Catalog> {
    return this.#call((id) => ({ op: "methods", id }));
  }

  async #exclusive<T>(begin: () => Promise<T>, work: object = {}, signal?: AbortSignal): Promise<T> {
    if (this.#work) throw new ForetokenError("busy", "the engine is at work already; stop it or wait for its result");
    this.#work = work;
    const stop = (): void => this.#stop(work);
    signal?.addEventListener("abort", stop);
    try {
      return await begin();
    } catch (cause) {
      throw signal?.aborted ? aborted(signal) : cause;
    } finally {
      signal?.removeEventListener("abort", stop);
      this.#work = undefined;
    }
  }

  /** Ends the running generation within a round, or the running benchmark, if there is one. */
  stop(): void {
    this.#stop(this.#work);
  }

  /** Ends this work, and none that came after it. */
  #stop(work: object | undefined): void {
    if (work && work === this.#work && !this.#ended) this.#worker.postMessage({ op: "stop" });
  }

  /** Metadata and tensors of a model file, without loading it. */
  async inspect(source: FileSource, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<Inspection> {
    const spec = specOf(source, { cache: "off" });
    return abortable(this.#call<Inspection>((id) => ({ op: "inspect", id, source: spec })), signal);
  }

  /** Calls back when the engine ends by itself: the worker or the program in it crashed. */
  onCrash(listener: (error: ForetokenError) => void): void {
    this.#listeners.add(listener);
  }

  /** Frees the models and ends the worker. What is pending rejects with code "disposed". */
  async dispose(): Promise<void> {
    if (this.#ended) return;
    this.stop();
    // A worker busy in one long step cannot answer; it is ended regardless.
    const closed = this.#call((id) => ({ op: "close", id })).catch(() => undefined);
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 1000))]);
    this.#end(new ForetokenError("disposed", "the engine was disposed"));
  }

  #call<T>(message: (id: number) => ToWorker, update: (json: string) => void = () => undefined): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      const wanted = message(id);
      try {
        this.#worker.postMessage(wanted);
      } catch (cause) {
        reject(new ForetokenError("bad_option", `the request cannot be sent to the worker: ${(cause as Error).message}`, undefined, { cause }));
        return;
      }
      this.#pending.set(id, { update, done: (json) => resolve(JSON.parse(json) as T), fail: reject });
    });
  }

  #receive(data: FromWorker): void {
    if (data.type === "crash") {
      this.#end(new ForetokenError("crash", data.error.message));
      return;
    }
    if (data.type === "alive") {
      // A worker that is terminated tells nobody; the lock it held is free then.
      const gone = (): void => this.#end(new ForetokenError("crash", "the worker was ended from outside the engine"));
      navigator.locks.request(data.lock, gone).catch(() => undefined); // pages that are left give their requests up
      return;
    }
    const pending = this.#pending.get(data.id);
    if (!pending && data.type === "update" && data.id === this.#opening?.id) this.#opening.update(data.json); // loading again
    if (!pending) return;
    if (data.type === "update") {
      pending.update(data.json);
      return;
    }
    this.#pending.delete(data.id);
    if (data.type === "done") pending.done(data.json);
    else pending.fail(failure(data.error));
  }

  /** Ends the worker and rejects everything that waits for it. */
  #end(error: ForetokenError): void {
    if (this.#ended) return;
    this.#ended = error;
    this.#worker.terminate();
    const waiting = [...this.#pending.values()];
    this.#pending.clear();
    for (const pending of waiting) pending.fail(error);
    if (error.code === "crash") for (const listener of this.#listeners) listener(error);
  }
}

if (Symbol.asyncDispose) {
  Engine.prototype[Symbol.asyncDispose] = function (this: Engine) {
    return this.dispose();
  };
}

/** What the worker tells of a failure; its code is one of ours, as Go and the sources give it. */
function failure({ code, message, param }: WireError): ForetokenError {
  return new ForetokenError((code as ForetokenErrorCode | undefined) ?? "internal", message, param);
}

/** The fields that are set. */
function defined<T extends object>(of: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined)) as { [K in keyof T]: Exclude<T[K], undefined> };
}

function sourcesOf(options: LoadOptions & { target: ModelSource }): Sources<SourceSpec> {
  const one = (source: ModelSource | null | undefined): SourceSpec | null => (source ? specOf(source, options) : null);
  return {
    target: specOf(options.target, options),
    draft: one(options.draft),
    eagle3: one(options.eagle3),
    eagle3_config: one(options.eagle3Config),
    calibrations: options.calibrations === "builtin" ? [] : (options.calibrations ?? []).map((file) => specOf(file, { ...options, cache: "off" })),
  };
}

/** What relative addresses begin from. */
const here = (): string | undefined => globalThis.document?.baseURI ?? globalThis.location?.href;

/** Resolves URLs here: relative ones belong to the page, not to the worker's script. */
function specOf(source: ModelSource, { hub = HUB, cache }: Pick<LoadOptions, "hub" | "cache">): SourceSpec {
  if (Array.isArray(source)) return { kind: "files", files: (source as readonly FileSource[]).map((file) => specOf(file, { hub, cache })) };
  const file = source as FileSource;
  if (file instanceof Blob) return { kind: "file", file, name: file instanceof File ? file.name : "file" };
  const { url, sha256 } = resolve(String(file), here(), hub);
  return { kind: "url", url, ...(defined({ sha256, cache }) as { sha256: string; cache: Keep }) };
}

function start(given: LoadOptions["worker"]): WorkerLike {
  if (typeof given === "function") return given() as unknown as WorkerLike;
  if (given) return from(new URL(given, here()).href);
  const ahead = globalThis as { foretokenWorker?: Worker | undefined }; // of start.ts
  const started = ahead.foretokenWorker;
  ahead.foretokenWorker = undefined;
  if (started) return started as unknown as WorkerLike;
  // Bundlers find the worker by this expression, which is why it is written out.
  if (new URL(import.meta.url).origin === location.origin) return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "foretoken" }) as unknown as WorkerLike;
  return from(import.meta.url.replace(/[^/]*$/, "worker.js"));
}

function from(url: string): WorkerLike {
  if (!globalThis.Worker) throw new ForetokenError("bad_option", "worker: workers cannot be started here, as in service workers; import foretoken/in-place, which needs none", "worker");
  const options = { type: "module", name: "foretoken" } as const;
  if (new URL(url).origin === location.origin) return new Worker(url, options) as unknown as WorkerLike;
  // A page may load this module from another origin but not start a worker
  // there; a worker of its own that imports the script is allowed.
  const shim = URL.createObjectURL(new Blob([`import ${JSON.stringify(url)};`], { type: "text/javascript" }));
  return new Worker(shim, options) as unknown as WorkerLike;
}
