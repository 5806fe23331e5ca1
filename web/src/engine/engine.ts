/// <reference lib="esnext.disposable" preserve="true" />
/**
 * The engine: a target and its draft, running in a worker.
 */
import type { Answerable, Conversation } from "./conversation.ts";
import { abortable, aborted, errorOf, ForetokenError, type ForetokenErrorCode } from "../protocol/errors.ts";
import {
  begun,
  bytesOf,
  checkSeed,
  type GenerateOptions,
  type Generation,
  type PageSide,
  parseRound,
  Queue,
  settingsOf,
} from "./generation.ts";
import { addressesOf, hostOf } from "../sources/hosts.ts";
import { brief } from "../sources/hub.ts";
import {
  checkedOptions,
  type FileSource,
  optionsOf,
  type LoadOptions,
  sourcesOf,
  specOf,
  start,
  type WorkerLike,
} from "./loading.ts";
import { configOf, DEFAULT_METHOD } from "./methods.ts";
import { checkFields, FUNCTION, membersOf, namesOf, randomId, SIGNAL, typeName, wrong } from "./options.ts";
import type { Answerer, ChatCompletionRequest, ChatCompletions, CompletionOptions } from "./openai.ts";
import type {
  Ask,
  BenchMatrix,
  BenchReport,
  BenchUpdate,
  Catalog,
  ChatOptions,
  ChatReply,
  ChatState,
  CostReport,
  DoctorReport,
  Embedding,
  EngineInfo,
  FromWorker,
  GenerateRequest,
  Inspection,
  JSONText,
  Measurement,
  OpenAIAnswer,
  Pooling,
  ProfileReport,
  Progress,
  Result,
  RoundEvent,
  Stats,
  ToWorker,
  WireError,
} from "../protocol/protocol.ts";
import type { TreeReader } from "../protocol/trace.ts";
import { plain, textOf } from "./plain.ts";
import { notLoaded } from "./spawn.ts";
import { type EngineStats, Totals } from "./stats.ts";
import { Turns } from "./turns.ts";

export type * from "../protocol/protocol.ts";
export type * from "./openai.ts";
export type { Conversation } from "./conversation.ts";
export { ForetokenError, type ForetokenErrorCode } from "../protocol/errors.ts";
export type { GenerateOptions, Generation } from "./generation.ts";
export type { EngineStats } from "./stats.ts";
export { addressesIn } from "./loading.ts";
export type { FileSource, LoadOptions, ModelSource, WorkerLike } from "./loading.ts";

/** Options of benchmarks and measurements. */
export interface MeasureOptions {
  /** Receives progress. */
  onUpdate?: ((update: BenchUpdate) => void) | undefined;
  /** Aborting ends the measurement within a round; it rejects with code "aborted". */
  signal?: AbortSignal | undefined;
}

/** Options of {@link Engine.embed}. */
export interface EmbedOptions extends Pooling {
  /** Aborting ends it within a pass; it rejects with code "aborted". */
  signal?: AbortSignal | undefined;
}

const EMBED_OPTIONS = namesOf<EmbedOptions>({ pooling: true, raw: true, signal: true });
const MEASURE_OPTIONS = namesOf<MeasureOptions>({ onUpdate: true, signal: true });
const CHAT_OPTIONS = namesOf<ChatOptions>({
  system: true,
  messages: true,
  template: true,
  tools: true,
  vars: true,
  reserve: true,
});

/** A running benchmark. */
export interface BenchRun {
  /** The report; partial if the benchmark was stopped. Stopped before its turn, it rejects with code "aborted". */
  readonly result: Promise<BenchReport>;
  /** Ends the benchmark within a round. */
  stop(): void;
}

interface Pending {
  update(json: string): void;
  ask: Ask;
  done(json: string): void;
  fail(error: ForetokenError): void;
}

/** `Symbol.asyncDispose` calls {@link Engine.dispose}: `await using engine = await Foretoken.load()`. */
export interface Engine extends AsyncDisposable {}

/** A target model and an optional draft, loaded in a worker; {@link Foretoken.load} returns it. */
export class Engine {
  /** The device, models and kernels that were loaded. */
  readonly info!: EngineInfo;
  readonly #worker: WorkerLike;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Set<(error: ForetokenError) => void>();
  readonly #totals = new Totals();
  #opening: { id: number; update(json: string): void } | undefined;
  #method = DEFAULT_METHOD;
  #next = 1;
  #work: AbortController | undefined;
  /** The generation that the program keeps the rounds of. */
  #traced: AbortController | undefined;
  /** Completions take turns; other work waits for them. */
  readonly #turns = new Turns();
  #conversation: Conversation | undefined;
  #completions: Promise<ChatCompletions> | undefined;
  #ended: ForetokenError | undefined;

  private constructor(worker: WorkerLike) {
    this.#worker = worker;
    worker.addEventListener("message", ({ data }) => this.#receive(data));
    worker.addEventListener("error", (event) =>
      this.#end(new ForetokenError("crash", `the worker failed: ${event.message || notLoaded()}`)),
    );
    worker.addEventListener("messageerror", () =>
      this.#end(new ForetokenError("crash", "the worker sent an unreadable message")),
    );
  }

  /** Starts a worker and loads the models into it. `complete` adds to checked options. @internal */
  static async load(
    given: LoadOptions = {},
    complete = (checked: LoadOptions): LoadOptions => checked,
  ): Promise<Engine> {
    try {
      return await Engine.#load(complete(checkedOptions(given)));
    } catch (cause) {
      throw errorOf(cause);
    }
  }

  static async #load(options: LoadOptions): Promise<Engine> {
    const { signal } = options;
    if (signal?.aborted) throw aborted(signal);
    // Refuse invalid options before a worker starts.
    const sources = sourcesOf(options);
    const text = textOf(optionsOf(options));
    const engine = new Engine(start(options.worker));
    const abort = (): void => engine.#end(aborted(signal));
    signal?.addEventListener("abort", abort);
    const progress = (json: string): void => options.onProgress?.(JSON.parse(json) as Progress);
    try {
      const opened = engine.#call<EngineInfo>(
        (id) => ({
          op: "open",
          id: (engine.#opening = { id, update: progress }).id,
          options: text,
          sources,
          // The page's origin too: a worker of a frame with an opaque origin does not know it.
          hosts: [...(options.hosts ?? addressesOf(sources).map(hostOf)), globalThis.location?.origin],
          lock: globalThis.navigator?.locks && randomId(), // pages of plain http have no locks
        }),
        progress,
      );
      const info = await opened;
      // The names in the files are for people.
      for (const model of [info.target, info.draft, info.eagle3]) if (model) model.name = brief(model.name);
      (engine as { info: EngineInfo }).info = info;
      return engine;
    } catch (cause) {
      engine.#end(new ForetokenError("disposed", "the engine failed to load"));
      throw cause;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  /**
   * Continues a prompt; the engine runs one generation at a time. Missing settings come from {@link DEFAULTS}, or from
   * the method if `policy` names another one. If the default method needs a draft and none is loaded, the engine
   * decodes plainly ("none").
   *
   * ```ts
   * const run = engine.generate(prompt, { max_tokens: 64 });
   * for await (const round of run) show(round.text);
   * console.log((await run.result).stats.acceptance_length);
   * ```
   */
  generate(prompt: string, options: GenerateOptions = {}): Generation {
    return begun(() => {
      if (typeof prompt !== "string") throw wrong("prompt", `is ${typeName(prompt)}, want a string`);
      const { request, own } = settingsOf(options, prompt);
      return this.#rounds<Result>(
        (id) => ({ op: "generate", id, request: textOf({ ...this.#withPossibleMethod(request), prompt }) }),
        request,
        own,
        (result) => result.stats,
      );
    });
  }

  /**
   * Starts a conversation and ends the previous one: an engine has one at a time. The KV cache is kept between
   * answers, so each answer prefills only the new messages. `chat.completions` answers lists of messages with
   * OpenAI's API.
   */
  readonly chat: ((options?: ChatOptions) => Promise<Conversation>) & {
    readonly completions: Pick<ChatCompletions, "create">;
  } = Object.assign((options?: ChatOptions) => this.#converse(options), {
    completions: {
      create: (async (request: ChatCompletionRequest, options?: CompletionOptions) => {
        // Pages that use no completions do not load their code.
        this.#completions ??= import("./openai.ts").then(
          (module) => new module.ChatCompletions(this.#answer),
          (cause: unknown) => {
            this.#completions = undefined; // the next request tries again
            throw errorOf(cause);
          },
        );
        return (await this.#completions).create(request, options);
      }) as ChatCompletions["create"],
    },
  });

  /** Answers a request of OpenAI's API in its turn, independently of the conversation. */
  readonly #answer: Answerer = async (path, body, onLine, signal) => {
    const leave = await this.#turns.take(signal);
    try {
      const answer = await this.#exclusive(
        () => this.#call<OpenAIAnswer>((id) => ({ op: "openai", id, path, body }), onLine),
        new AbortController(),
        signal,
        true,
      );
      if (signal?.aborted) throw aborted(signal);
      if (answer.stats) {
        this.#method = answer.policy;
        this.#totals.add(answer.stats);
      }
      return answer;
    } catch (cause) {
      throw (cause as ForetokenError).code === "aborted" ? aborted(signal) : cause;
    } finally {
      leave();
    }
  };

  async #converse(options: ChatOptions = {}): Promise<Conversation> {
    const action = textOf({ ...membersOf(options, CHAT_OPTIONS), do: "open" });
    const [state, { Conversation }] = await Promise.all([
      this.#exclusive(() => this.#call<ChatState>((id) => ({ op: "chat", id, action }))),
      import("./conversation.ts"),
    ]);
    const conversation: Conversation = new Conversation(state, (action: Answerable, own, keep) => {
      if (this.#conversation !== conversation)
        throw new ForetokenError("disposed", "the conversation has ended: a new one was started");
      return this.#rounds<ChatReply>(
        (id) => ({ op: "chat", id, action: textOf({ ...action, request: this.#withPossibleMethod(action.request) }) }),
        action.request,
        own,
        (reply) => {
          keep(reply);
          return reply.result.stats;
        },
      );
    });
    this.#conversation = conversation;
    return conversation;
  }

  /** Replaces a default method that needs a draft by plain decoding if no draft is loaded. */
  #withPossibleMethod<R extends Omit<GenerateRequest, "prompt">>(request: R): R {
    const without = request.policy === undefined && !this.info.draft && configOf(request).uses_draft;
    return without ? { ...request, policy: "none" } : request;
  }

  #rounds<R>(
    message: (id: number) => ToWorker,
    request: Omit<GenerateRequest, "prompt">,
    { signal, logits_processor: processor }: PageSide,
    statsOf: (result: R) => Stats,
  ): Generation<R> {
    if (signal?.aborted) throw aborted(signal);
    const work = new AbortController();
    const stop = (): void => this.#stop(work);
    const queue = new Queue<RoundEvent>(stop);
    // Pages that ask for no trees do not load their reader.
    const reader = request.trace ? import("../protocol/trace.ts").then((module) => new module.TreeReader()) : undefined;
    let thrown: { cause: unknown } | undefined;
    const ask = async (json: string): Promise<string> => {
      try {
        return JSON.stringify(await processor!(JSON.parse(json) as number[][])) ?? "null";
      } catch (cause) {
        thrown = { cause };
        throw cause;
      }
    };
    const begin = (trees?: TreeReader): Promise<R> =>
      this.#exclusive(
        () => {
          this.#traced = work;
          return this.#call<R>(message, (json) => queue.push(parseRound(json, trees)), ask);
        },
        work,
        signal,
      );
    const result = (reader ? reader.then(begin) : begin()).then(
      (all) => {
        this.#method = this.#withPossibleMethod(request).policy ?? DEFAULT_METHOD;
        this.#totals.add(statsOf(all));
        if (signal?.aborted) throw aborted(signal);
        return all;
      },
      (cause: unknown) => {
        if (signal?.aborted) throw aborted(signal);
        if (!thrown) throw errorOf(cause);
        const text = `logits_processor: it failed: ${String((thrown.cause as Error | null)?.message ?? thrown.cause)}`;
        throw new ForetokenError("bad_option", text, "logits_processor", thrown);
      },
    );
    result.then(
      () => queue.end(),
      (cause: unknown) => queue.end(cause),
    );
    const trace = async (): Promise<Uint8Array> => {
      await result;
      if (this.#traced !== work)
        throw new ForetokenError("disposed", "the engine keeps the rounds of its last generation: a later one began");
      return bytesOf(await this.#call<string>((id) => ({ op: "trace", id })));
    };
    return { result, stop, trace, [Symbol.asyncIterator]: () => queue };
  }

  /** Returns totals of all generations since loading, and where the time went. */
  stats(): EngineStats {
    return this.#totals.of(this.info, this.#method);
  }

  /** Benchmarks methods against plain decoding, interleaved prompt by prompt. The engine must be idle. */
  bench(matrix: BenchMatrix, options: MeasureOptions = {}): BenchRun {
    const work = new AbortController();
    const message = (id: number): ToWorker => {
      const of = plain(membersOf(matrix));
      checkSeed(of.request?.seed);
      return { op: "bench", id, matrix: textOf(of) };
    };
    return { result: this.#measure(message, options, work), stop: () => this.#stop(work) };
  }

  /**
   * Embeds texts: pools the target's final hidden states over each. Texts with like meanings get like vectors, as far
   * as the model was trained for that. The engine must be idle.
   *
   * ```ts
   * const [a, b] = await engine.embed(["read a file", "open a file"]);
   * const likeness = a!.vector.reduce((sum, x, i) => sum + x * b!.vector[i]!, 0);
   * ```
   */
  async embed(texts: string | readonly string[], options: EmbedOptions = {}): Promise<Embedding[]> {
    const { signal, ...pooling } = membersOf(options, EMBED_OPTIONS);
    const all = typeof texts === "string" ? [texts] : texts;
    if (!Array.isArray(all)) throw wrong("texts", `is ${typeName(texts)}, want a string or a list of strings`);
    const odd = all.findIndex((text) => typeof text !== "string");
    if (odd >= 0) throw wrong(`texts[${odd}]`, `is ${typeName(all[odd])}, want a string`);
    return this.#measure((id) => ({ op: "embed", id, request: textOf({ texts: all, ...pooling }) }), { signal });
  }

  /** Times passes of both models. The engine must be idle. */
  costs(measurement: Omit<Measurement, "what"> = {}, options: MeasureOptions = {}): Promise<CostReport> {
    return this.#measured("costs", measurement, options);
  }

  /** Profiles kernels and phases of rounds. The engine must be idle. */
  profile(measurement: Omit<Measurement, "what"> = {}, options: MeasureOptions = {}): Promise<ProfileReport> {
    return this.#measured("profile", measurement, options);
  }

  /** Checks the device's kernels against references, and measures it. The engine must be idle. */
  doctor(measurement: Omit<Measurement, "what"> = {}, options: MeasureOptions = {}): Promise<DoctorReport> {
    const browser = globalThis.navigator?.userAgent ?? "";
    return this.#measured("doctor", measurement, options, { browser });
  }

  #measured<R>(
    what: Measurement["what"],
    measurement: Omit<Measurement, "what">,
    options: MeasureOptions,
    missing: Omit<Measurement, "what"> = {},
  ): Promise<R> {
    const text = (): JSONText => textOf({ ...missing, ...membersOf(measurement), what });
    return this.#measure((id) => ({ op: "measure", id, measurement: text() }), options);
  }

  async #measure<R>(
    message: (id: number) => ToWorker,
    options: MeasureOptions,
    work = new AbortController(),
  ): Promise<R> {
    const { onUpdate, signal } = membersOf(options, MEASURE_OPTIONS);
    checkFields({ onUpdate, signal }, { onUpdate: FUNCTION, signal: SIGNAL });
    if (signal?.aborted) throw aborted(signal);
    const report = await this.#exclusive(
      () => this.#call<R>(message, (json) => onUpdate?.(JSON.parse(json) as BenchUpdate)),
      work,
      signal ?? undefined,
    );
    if (signal?.aborted) throw aborted(signal);
    return report;
  }

  /** Returns the methods of the loaded Go program; {@link METHODS} lists the methods of the build. */
  methods(): Promise<Catalog> {
    return this.#call((id) => ({ op: "methods", id }));
  }

  /**
   * Does work that needs the engine for itself. It waits for completions, and is refused during other work. `work` is
   * aborted by a stop before it begins.
   */
  async #exclusive<T>(
    begin: () => Promise<T>,
    work = new AbortController(),
    signal?: AbortSignal,
    inTurn?: boolean,
  ): Promise<T> {
    const stop = (): void => this.#stop(work);
    signal?.addEventListener("abort", stop);
    let leave: (() => void) | undefined;
    try {
      if (this.#turns.taken && !inTurn) leave = await this.#turns.take(work.signal);
      if (work.signal.aborted) throw aborted(work.signal);
      if (this.#work) throw new ForetokenError("busy", "the engine is working; stop it or wait for its result");
      this.#work = work;
      return await begin();
    } catch (cause) {
      throw signal?.aborted ? aborted(signal) : cause;
    } finally {
      signal?.removeEventListener("abort", stop);
      if (this.#work === work) this.#work = undefined;
      leave?.();
    }
  }

  /** Ends a running generation or benchmark within a round. */
  stop(): void {
    this.#stop(this.#work);
  }

  /** Ends this work, running or waiting, unless it has ended and later work is running. */
  #stop(work: AbortController | undefined): void {
    if (!work || this.#ended) return;
    if (work === this.#work) this.#worker.postMessage({ op: "stop" });
    else work.abort();
  }

  /** Returns metadata and tensors of a model file, without loading it. */
  async inspect(source: FileSource, options: { signal?: AbortSignal | undefined } = {}): Promise<Inspection> {
    const { signal } = membersOf(options, ["signal"]);
    checkFields({ signal }, { signal: SIGNAL });
    const spec = specOf("source", source, { cache: "off" });
    const hosts = spec.kind === "url" ? [hostOf(spec.url)] : [];
    return abortable(
      this.#call<Inspection>((id) => ({ op: "inspect", id, source: spec, hosts })),
      signal,
    );
  }

  /** Calls `listener` when the worker or the Go program in it crashes. */
  onCrash(listener: (error: ForetokenError) => void): void {
    this.#listeners.add(listener);
  }

  /** Frees the models and ends the worker. Pending calls reject with code "disposed". */
  async dispose(): Promise<void> {
    if (this.#ended) return;
    this.stop();
    // A worker in a long step cannot answer; terminate it after a short wait.
    const closed = this.#call((id) => ({ op: "close", id })).catch(() => undefined);
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 1000))]);
    this.#end(new ForetokenError("disposed", "the engine was disposed"));
  }

  #call<T>(
    message: (id: number) => ToWorker,
    update: (json: string) => void = () => undefined,
    ask: Ask = async () => "null",
  ): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      try {
        this.#worker.postMessage(message(id));
      } catch (cause) {
        return reject(errorOf(cause));
      }
      this.#pending.set(id, { update, ask, done: (json) => resolve(JSON.parse(json) as T), fail: reject });
    });
  }

  #receive(data: FromWorker): void {
    if (data.type === "crash") {
      this.#end(new ForetokenError("crash", data.error.message));
      return;
    }
    if (data.type === "alive") {
      // A terminated worker releases its lock without a message.
      const gone = (): void =>
        this.#end(new ForetokenError("crash", "the worker was terminated from outside the engine"));
      navigator.locks.request(data.lock, gone).catch(() => undefined); // leaving the page aborts the request
      return;
    }
    const pending = this.#pending.get(data.id);
    // Progress of reloading after a lost device.
    if (!pending && data.type === "update" && data.id === this.#opening?.id) data.json.forEach(this.#opening.update);
    if (!pending) return;
    if (data.type === "update") {
      data.json.forEach(pending.update);
      return;
    }
    if (data.type === "ask") {
      const { id } = data;
      pending.ask(data.json).then(
        (json) => this.#worker.postMessage({ op: "answer", id, json }),
        (cause: unknown) => this.#worker.postMessage({ op: "answer", id, error: String(cause) }),
      );
      return;
    }
    this.#pending.delete(data.id);
    if (data.type === "done") pending.done(data.json);
    else pending.fail(failure(data.error));
  }

  /** Terminates the worker and rejects all pending calls. */
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

/** Converts an error from the worker; Go and the sources use the codes of ForetokenError. */
function failure({ code, message, param }: WireError): ForetokenError {
  return new ForetokenError((code as ForetokenErrorCode | undefined) ?? "internal", message, param);
}
