/** Generations as programs see them: rounds to iterate, and the whole. */
import type { ForetokenError } from "./errors.ts";
import type { GenerateRequest, Result, RoundEvent } from "./protocol.ts";

/** What a generation can be told beside its prompt; what is left out is {@link DEFAULTS}', or the method's own where `policy` names another. */
export interface GenerateOptions extends Omit<GenerateRequest, "prompt"> {
  /** Aborting ends the generation within a round: its loop and its result reject with code "aborted". */
  signal?: AbortSignal | undefined;
}

/**
 * A running generation: iterate it for its rounds (leaving the loop stops it), await `result` for the whole.
 * Who does neither need not stop it; it ends by itself.
 */
export interface Generation<R = Result> extends AsyncIterable<RoundEvent> {
  /** The whole of it, once it has ended. */
  readonly result: Promise<R>;
  /** Ends it within a round; `result` then resolves with what there is, and finish "aborted". */
  stop(): void;
}

/** Rounds between the worker that makes them and the loop that takes them. */
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

  /** A loop that is left early ends the generation. */
  async return(): Promise<IteratorResult<RoundEvent>> {
    if (!this.#ended) this.#abandon();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** A generation that never began. */
export function failed<R>(error: ForetokenError): Generation<R> {
  const queue = new RoundQueue(() => undefined);
  queue.end(error);
  const result = Promise.reject<R>(error);
  result.catch(() => undefined);
  return { result, stop: () => undefined, [Symbol.asyncIterator]: () => queue };
}

/** Go writes a list it never filled as null. */
export function parseRound(json: string): RoundEvent {
  const round = JSON.parse(json) as RoundEvent;
  round.tokens ??= [];
  const tree = (round.tree ??= {} as RoundEvent["tree"]);
  for (const list of ["tokens", "texts", "parents", "depths", "scores", "accepted", "relaxed", "entropies", "draft_entropies"] as const) (tree as Record<typeof list, unknown>)[list] ??= [];
  tree.pruned ??= { tokens: [], texts: [], parents: [], scores: [], total: 0 };
  return round;
}
