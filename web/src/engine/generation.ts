/** Running generations: an async iterable of rounds, and a promise of the result. */
import type { ForetokenError } from "../protocol/errors.ts";
import type { GenerateRequest, LogitsProcessor, Result, RoundEvent } from "../protocol/protocol.ts";

/** Options of a generation. Missing ones come from the method that `policy` names, then from {@link DEFAULTS}. */
export interface GenerateOptions extends Omit<GenerateRequest, "prompt"> {
  /** Is asked once a pass what to add to the logits of tokens. */
  logits_processor?: LogitsProcessor | undefined;
  /** Aborting ends the generation within a round: its loop and its result reject with code "aborted". */
  signal?: AbortSignal | undefined;
}

/**
 * A running generation: iterate over its rounds (leaving the loop stops it), or await `result`. A generation also runs
 * to its end without a reader.
 */
export interface Generation<R = Result> extends AsyncIterable<RoundEvent> {
  /** The result, once the generation has ended. */
  readonly result: Promise<R>;
  /** Ends the generation within a round; `result` resolves with the text so far and finish "aborted". */
  stop(): void;
}

/** Buffers rounds between the worker and the loop that reads them. */
export class RoundQueue implements AsyncIterableIterator<RoundEvent> {
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

  /** Leaving the loop early stops the generation. */
  async return(): Promise<IteratorResult<RoundEvent>> {
    if (!this.#ended) this.#abandon();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Returns a generation that failed before it started. */
export function failed<R>(error: ForetokenError): Generation<R> {
  const queue = new RoundQueue(() => undefined);
  queue.end(error);
  const result = Promise.reject<R>(error);
  result.catch(() => undefined);
  return { result, stop: () => undefined, [Symbol.asyncIterator]: () => queue };
}

/** Parses a round; Go writes empty lists as null. */
export function parseRound(json: string): RoundEvent {
  const round = JSON.parse(json) as RoundEvent;
  round.tokens ??= [];
  const tree = (round.tree ??= {} as RoundEvent["tree"]);
  for (const list of [
    "tokens",
    "texts",
    "parents",
    "depths",
    "scores",
    "accepted",
    "relaxed",
    "entropies",
    "draft_entropies",
  ] as const)
    (tree as Record<typeof list, unknown>)[list] ??= [];
  tree.pruned ??= { tokens: [], texts: [], parents: [], scores: [], total: 0 };
  return round;
}
