/** Writes traces for the scripted engine, in the format of package trace. */
import type { EventTree, RoundEvent } from "../../src/protocol/protocol.ts";

const KINDS = ["plain", "accepted", "relaxed", "corrected", "bonus"];

export class TraceWriter {
  readonly #prompt: string;
  #rounds: number[] = [];
  #trees: number[] = [];
  #run = 0;
  #elapsed = 0;
  readonly #dictionary = new Map<number, number>();

  constructor(prompt: string) {
    this.#prompt = prompt;
  }

  /** Adds a round and returns its tree in base64. */
  add({ tokens, ms, elapsed_ms, bin, phi }: Omit<RoundEvent, "tree">, tree: EventTree): string {
    this.#run++;
    const elapsed = Math.round(elapsed_ms * 100);
    for (const part of [ms.draft, ms.verify, ms.readback, ms.host]) number(this.#rounds, Math.round(part * 100));
    number(this.#rounds, elapsed - this.#elapsed);
    this.#elapsed = elapsed;
    number(this.#rounds, tokens.length);
    for (const { id, text, kind } of tokens) {
      const bytes = new TextEncoder().encode(text);
      number(this.#rounds, id);
      number(this.#rounds, 8 * bytes.length + KINDS.indexOf(kind));
      this.#rounds.push(...bytes);
    }
    const begin = this.#trees.length;
    this.#tree(tree, bin, phi);
    return base64(this.#trees.slice(begin));
  }

  #tree(tree: EventTree, bin: number | undefined, phi = 0): void {
    const to = this.#trees;
    number(to, tree.tokens.length);
    number(to, bin ? 7 : 3);
    this.#tokens(tree.tokens, tree.texts);
    let last = 0;
    for (const parent of tree.parents.slice(1)) {
      number(to, parent < last ? 2 * (last - parent) - 1 : 2 * (parent - last));
      last = parent;
    }
    const fall = (score: number): number => Math.round(-32 * score);
    tree.parents.slice(1).forEach((parent, i) => number(to, fall(tree.scores[i + 1]!) - fall(tree.scores[parent]!)));
    number(to, tree.accepted.at(-1) ?? 0);
    for (const entropy of tree.entropies) number(to, Math.round(16 * entropy));
    for (const entropy of tree.draft_entropies) number(to, entropy < 0 ? 0 : Math.round(16 * entropy) + 1);
    if (bin) {
      number(to, bin);
      number(to, Math.round(16 * phi));
    }
    const { tokens, texts, parents, scores, total } = tree.pruned;
    number(to, total);
    if (total === 0) return;
    number(to, tokens.length);
    this.#tokens(tokens, texts);
    for (const parent of parents) number(to, parent);
    scores.forEach((score, i) => number(to, fall(score) - fall(scores[i - 1] ?? 0)));
  }

  #tokens(ids: readonly number[], texts: readonly string[]): void {
    ids.forEach((id, i) => {
      const known = this.#dictionary.get(id);
      number(this.#trees, known ?? this.#dictionary.size);
      if (known !== undefined) return;
      this.#dictionary.set(id, this.#dictionary.size);
      number(this.#trees, id);
      text(this.#trees, texts[i]!);
    });
  }

  /** Returns the trace in base64; `finish` is its number in the format. */
  whole(finish: number): string {
    const bytes = [1];
    text(bytes, this.#prompt);
    for (const value of [this.#run, this.#run, finish, 0]) number(bytes, value);
    return base64([...bytes, ...this.#rounds, ...this.#trees]);
  }
}

function number(to: number[], value: number): void {
  for (; value >= 128; value = Math.floor(value / 128)) to.push((value % 128) + 128);
  to.push(value);
}

function text(to: number[], of: string): void {
  const bytes = new TextEncoder().encode(of);
  number(to, bytes.length);
  to.push(...bytes);
}

function base64(bytes: readonly number[]): string {
  return btoa(bytes.map((byte) => String.fromCharCode(byte)).join(""));
}
