/**
 * Reads traces: the rounds of a request as the engine records them. Package trace of the Go program writes them and
 * documents the format. A trace may come from anybody, in a link for example: the reader refuses whatever differs from
 * the format, and makes no more of it than in proportion to its bytes.
 */
import { ForetokenError } from "./errors.ts";
import type { EventToken, EventTree, Finish, RoundEvent, TokenKind } from "./generation.ts";

/** A round of a {@link Trace}; `tree` is missing in the last rounds of a trace that was shortened. */
export type TracedRound = Pick<
  RoundEvent,
  "round" | "text" | "tokens" | "tree" | "bin" | "phi" | "ms" | "elapsed_ms"
>;

/** The rounds of a request. Scores are exact to 1/64 nat, entropies to 1/32 nat and times to 0.005 ms. */
export interface Trace {
  /** The text that was continued, or its end; "" for answers of a conversation. */
  prompt: string;
  /** The number of rounds of the request; more than `rounds` holds if the request was longer than a trace. */
  run: number;
  rounds: TracedRound[];
  /** Text that became certain at the end, after the texts of all rounds. */
  rest: string;
  /** Missing if the request had not ended. */
  finish?: Finish;
}

export const VERSION = 1;
const MAX = {
  bytes: 4 << 20,
  prompt: 64 << 10,
  rounds: 1 << 16,
  nodes: 4096,
  pruned: 32,
  number: 2 ** 31 - 1,
};
/** Steps in a nat, and the most nats of a value. */
export const SCORE = 32;
export const ENTROPY = 16;
const NATS = 1024;
/** Units of time in a millisecond. */
export const UNITS = 100;

export const KINDS: readonly TokenKind[] = ["plain", "accepted", "relaxed", "corrected", "bonus"];
export const FINISHES: readonly (Finish | undefined)[] = [undefined, "eos", "stop", "length", "context", "aborted"];

/** Reads a trace. Throws a {@link ForetokenError} with code "unreadable" that says what is wrong with it. */
export function readTrace(bytes: Uint8Array): Trace {
  if (!(bytes instanceof Uint8Array)) throw wrong("it is no Uint8Array");
  if (bytes.length > MAX.bytes) throw wrong(`it has ${bytes.length} bytes, want at most ${MAX.bytes}`);
  const from = new Reader(bytes);
  const version = from.number("version");
  if (version !== VERSION) throw wrong(`its version is ${version}, and this program reads version ${VERSION}`);
  const prompt = from.text("prompt", MAX.prompt);
  const run = from.number("run");
  const count = from.number("rounds", Math.min(run, MAX.rounds));
  const finish = FINISHES[from.number("finish", FINISHES.length - 1)];
  const trace: Trace = { prompt, run, rounds: [], rest: from.text("rest", MAX.bytes) };
  if (finish) trace.finish = finish;
  let elapsed = 0;
  for (let round = 1; round <= count; round++) {
    from.where = `round ${round}: `;
    const [draft, verify, readback, host] = ["draft", "verify", "readback", "host"].map(
      (part) => from.number(part) / UNITS,
    ) as [number, number, number, number];
    elapsed += from.number("elapsed");
    const tokens = readTokens(from);
    const text = tokens.map((token) => token.text).join("");
    const ms = { draft, verify, readback, host };
    trace.rounds.push({ round, text, tokens, ms, elapsed_ms: elapsed / UNITS });
  }
  const trees = new TreeReader();
  for (const round of trace.rounds) {
    if (from.ended) break;
    from.where = `tree ${round.round}: `;
    Object.assign(round, trees.read(from, round.tokens));
  }
  from.where = "";
  from.end();
  return trace;
}

function readTokens(from: Reader): EventToken[] {
  return Array.from({ length: from.count("tokens", 1, MAX.nodes) }, (_, i) => {
    const id = from.number("a token");
    const code = from.number("a kind");
    const kind = KINDS[code % 8];
    if (!kind) throw from.wrong(`a token has the unknown kind ${code % 8}`);
    const text = from.characters("a token's text", Math.floor(code / 8));
    return { id, text, kind, depth: kind === "accepted" || kind === "relaxed" ? i + 1 : 0 };
  });
}

/** Reads the trees of a request, one after the other: each may name tokens of the trees before it. */
export class TreeReader {
  readonly #ids: number[] = [];
  readonly #texts: string[] = [];

  /** Reads a tree that came alone, with the tokens of its round. */
  readAlone(bytes: Uint8Array, tokens: readonly EventToken[]): EventTree {
    const from = new Reader(bytes);
    const { tree } = this.read(from, tokens);
    from.end();
    return tree;
  }

  /** Reads the next tree. @internal */
  read(from: Reader, committed: readonly EventToken[]): { tree: EventTree; bin?: number; phi?: number } {
    const nodes = from.count("nodes", 1, MAX.nodes);
    const known = from.number("known", 7);
    const { tokens, texts } = this.#tokens(from, nodes);
    const parents = [-1];
    const depths = [0];
    for (let node = 1, parent = 0; node < nodes; node++) {
      const by = from.number("a parent", 2 * MAX.nodes);
      parent += by % 2 ? -(by + 1) / 2 : by / 2;
      if (parent < 0 || parent >= node) throw from.wrong(`node ${node} has parent ${parent}, want an earlier node`);
      parents.push(parent);
      depths.push(depths[parent]! + 1);
    }
    const scores = [0];
    for (let node = 1; node < nodes; node++)
      scores.push(scores[parents[node]!]! - from.number("a score", NATS * SCORE) / SCORE);
    const accepted: number[] = [];
    for (let node = from.number("last", nodes - 1); node > 0; node = parents[node]!) accepted.push(node);
    accepted.reverse();
    if (accepted.length > committed.length)
      throw from.wrong(`its path has ${accepted.length} nodes, but the round ${committed.length} tokens`);
    const entropies = (add: number): number[] =>
      Array.from({ length: nodes }, () => {
        const at = from.number("an entropy", NATS * ENTROPY + add) - add;
        return at < 0 ? -1 : at / ENTROPY;
      });
    const tree: EventTree = {
      tokens,
      texts,
      parents,
      depths,
      scores,
      accepted,
      relaxed: accepted.filter((_, i) => committed[i]!.kind === "relaxed"),
      entropies: known & 1 ? entropies(0) : [],
      draft_entropies: known & 2 ? entropies(1) : [],
      pruned: { tokens: [], texts: [], parents: [], scores: [], total: 0 },
    };
    const hetero = known & 4 ? { bin: from.number("bin"), phi: from.number("phi", NATS * ENTROPY) / ENTROPY } : {};
    const total = (tree.pruned.total = from.number("pruned"));
    if (total > 0) {
      const shown = from.count("shown", 1, Math.min(total, MAX.pruned));
      Object.assign(tree.pruned, this.#tokens(from, shown));
      for (let i = 0; i < shown; i++) tree.pruned.parents.push(from.number("a parent", nodes + i - 1));
      for (let i = 0, at = 0; i < shown; i++)
        tree.pruned.scores.push((at -= from.number("a score", NATS * SCORE) / SCORE));
    }
    return { tree, ...hetero };
  }

  #tokens(from: Reader, count: number): { tokens: number[]; texts: string[] } {
    const tokens: number[] = [];
    const texts: string[] = [];
    while (tokens.length < count) {
      const at = from.number("a token", this.#ids.length);
      if (at === this.#ids.length) {
        this.#ids.push(from.number("a token's id"));
        this.#texts.push(from.text("a token's text", MAX.bytes));
      }
      tokens.push(this.#ids[at]!);
      texts.push(this.#texts[at]!);
    }
    return { tokens, texts };
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads the parts of a trace in order. */
class Reader {
  /** The part under way, for errors. */
  where = "";
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get ended(): boolean {
    return this.#at === this.#bytes.length;
  }

  end(): void {
    if (!this.ended) throw this.wrong(`${this.#bytes.length - this.#at} bytes follow the last tree`);
  }

  wrong(what: string): ForetokenError {
    return wrong(this.where + what);
  }

  number(what: string, most = MAX.number): number {
    let value = 0;
    for (let weight = 1; ; weight *= 128) {
      if (this.ended) throw this.wrong(`it ends within ${what}`);
      const byte = this.#bytes[this.#at++]!;
      value += (byte % 128) * weight;
      if (value > most || weight > 2 ** 28) throw this.wrong(`${what} is more than ${most}`);
      if (byte >= 128) continue;
      if (byte === 0 && weight > 1) throw this.wrong(`${what} is longer than it needs`);
      return value;
    }
  }

  /** A number of things that take at least a byte each. */
  count(what: string, least: number, most: number): number {
    const n = this.number(what, most);
    if (n < least) throw this.wrong(`${what} is ${n}, want at least ${least}`);
    if (n > this.#bytes.length - this.#at) throw this.wrong(`it ends within ${n} ${what}`);
    return n;
  }

  text(what: string, most: number): string {
    return this.characters(what, this.count(what, 0, most));
  }

  /** A text of `length` bytes. */
  characters(what: string, length: number): string {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw this.wrong(`it ends within ${what}`);
    try {
      return UTF8.decode(this.#bytes.subarray(this.#at, (this.#at = end)));
    } catch {
      throw this.wrong(`${what} is not UTF-8`);
    }
  }
}

function wrong(what: string): ForetokenError {
  return new ForetokenError("unreadable", `trace: ${what}`);
}
