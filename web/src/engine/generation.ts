/** Running generations: an async iterable of rounds, and a promise of the result. */
import { errorOf } from "../protocol/errors.ts";
import type { GenerateRequest, LogitsProcessor, Result, RoundEvent } from "../protocol/protocol.ts";
import type { TreeReader } from "../protocol/trace.ts";
import { checkFields, FUNCTION, membersOf, SIGNAL, wrong } from "./options.ts";
import { plain } from "./plain.ts";

/** Options of a generation. Missing ones come from the method that `policy` names, then from {@link DEFAULTS}. */
export interface GenerateOptions extends Omit<GenerateRequest, "prompt" | "seed"> {
  /** Any number of 64 bits: a BigInt beyond 2^53, where numbers lose digits. */
  seed?: number | bigint | undefined;
  /** Is asked once a pass what to add to the logits of tokens. */
  logits_processor?: LogitsProcessor | undefined;
  /** Aborting ends the generation within a round: its loop and its result reject with code "aborted". */
  signal?: AbortSignal | undefined;
}

/** What stays in the page of a generation's options. */
export type PageSide = Pick<GenerateOptions, "signal" | "logits_processor">;

/** The settings of a request without its text; `asks` as in {@link ToWorker}. */
export type Settings = Omit<GenerateRequest, "prompt"> & { asks?: true };

/**
 * Splits options into what goes to the program, which checks names and bounds, and what stays in the page. Options may
 * be a whole {@link GenerateRequest} with the `text` as its prompt.
 */
export function settingsOf(options: GenerateOptions, text?: string): { request: Settings; own: PageSide } {
  const { signal, logits_processor, prompt, ...rest } = membersOf<GenerateOptions & { prompt?: unknown }>(options);
  checkFields({ signal, logits_processor }, { signal: SIGNAL, logits_processor: FUNCTION });
  if (prompt !== undefined && prompt !== text) throw wrong("prompt", "is no setting, and differs from the text");
  if ("asks" in rest) throw wrong("asks", "is unknown");
  const request = plain(rest) as Settings;
  checkSeed(request.seed);
  if (logits_processor) request.asks = true;
  return { request, own: { signal, logits_processor } };
}

/** Refuses a seed that has lost digits. */
export function checkSeed(seed: unknown): void {
  const most = Number.MAX_SAFE_INTEGER;
  if (typeof seed === "number" && Math.abs(seed) > most)
    throw wrong("seed", `is ${seed}; beyond ${most} numbers lose digits: give a BigInt`);
}

/**
 * A running generation: iterate over its rounds (leaving the loop stops it), or await `result`. A generation also runs
 * to its end without a reader.
 */
export interface Generation<R = Result> extends AsyncIterable<RoundEvent> {
  /** The result, once the generation has ended. */
  readonly result: Promise<R>;
  /**
   * Ends the generation within a round; `result` resolves with the text so far and finish "aborted". Before its turn,
   * `result` rejects with code "aborted".
   */
  stop(): void;
  /**
   * The rounds with their trees, once the generation has ended, for {@link readTrace}, a file or a link: some hundred
   * bytes a round. An engine keeps the trees of its last generation: later it rejects with code "disposed".
   */
  trace(): Promise<Uint8Array>;
}

/** Keeps items until a loop reads them, so that their maker waits for no reader. Leaving the loop abandons them. */
export class Queue<T> implements AsyncIterableIterator<T> {
  #items: T[] = [];
  #ended = false;
  #error: unknown;
  #waiting: (() => void)[] = [];
  readonly #abandon: () => unknown;

  constructor(abandon: () => unknown) {
    this.#abandon = abandon;
  }

  push(item: T): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#wake();
  }

  /** Ends the queue after its items; a reader gets the error, if there is one. */
  end(error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  /** Ends the queue at once. */
  drop(): void {
    this.#items = [];
    this.#error = undefined;
    this.end();
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  async next(): Promise<IteratorResult<T>> {
    for (;;) {
      if (this.#items.length > 0) return { done: false, value: this.#items.shift()! };
      if (this.#error) throw this.#error;
      if (this.#ended) return { done: true, value: undefined };
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  async return(): Promise<IteratorResult<T>> {
    if (!this.#ended) await this.#abandon();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Returns the generation that `start` returns; if it throws, one that failed before it started. */
export function begun<R>(start: () => Generation<R>): Generation<R> {
  try {
    return start();
  } catch (cause) {
    const error = errorOf(cause);
    const queue = new Queue<RoundEvent>(() => undefined);
    queue.end(error);
    const result = Promise.reject<R>(error);
    result.catch(() => undefined);
    const trace = (): Promise<never> => result as Promise<never>;
    return { result, stop: () => undefined, trace, [Symbol.asyncIterator]: () => queue };
  }
}

/** Parses a round; `trees` reads the trees of its generation, in order, if it asked for them. */
export function parseRound(json: string, trees: TreeReader | undefined): RoundEvent {
  const { tree, ...round } = JSON.parse(json) as Omit<RoundEvent, "tree"> & { tree?: string };
  return trees && tree ? { ...round, tree: trees.readAlone(bytesOf(tree), round.tokens) } : round;
}

/** Returns the bytes that a base64 text holds. */
export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
