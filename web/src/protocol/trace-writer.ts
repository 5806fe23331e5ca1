/** Writes traces, for links; trace.ts reads them, and package trace of the Go program documents the format. */
import { ENTROPY, FINISHES, KINDS, SCORE, type Trace, type TracedRound, UNITS, VERSION } from "./trace.ts";

/** Returns the bytes of a trace. Rounds without trees come last. */
export function encodeTrace({ prompt, run, rounds, rest, finish }: Trace): Uint8Array {
  const to = new Writer();
  to.number(VERSION);
  to.text(prompt);
  to.number(run);
  to.number(rounds.length);
  to.number(FINISHES.indexOf(finish));
  to.text(rest);
  let before = 0;
  for (const { ms, elapsed_ms, tokens } of rounds) {
    for (const part of [ms.draft, ms.verify, ms.readback, ms.host]) to.number(part * UNITS);
    const elapsed = Math.round(elapsed_ms * UNITS);
    to.number(elapsed - before);
    before = elapsed;
    to.number(tokens.length);
    for (const { id, text, kind } of tokens) {
      const characters = new TextEncoder().encode(text);
      to.number(id);
      to.number(8 * characters.length + KINDS.indexOf(kind));
      to.bytes.push(...characters);
    }
  }
  for (const round of rounds) {
    if (!round.tree) break;
    writeTree(to, round);
  }
  return Uint8Array.from(to.bytes);
}

function writeTree(to: Writer, { tree, bin, phi }: TracedRound): void {
  const { tokens, texts, parents, scores, accepted, entropies, draft_entropies, pruned } = tree!;
  to.number(tokens.length);
  to.number((entropies.length > 0 ? 1 : 0) + (draft_entropies.length > 0 ? 2 : 0) + (bin === undefined ? 0 : 4));
  to.tokens(tokens, texts);
  for (let node = 1, last = 0; node < tokens.length; last = parents[node++]!) {
    const by = parents[node]! - last;
    to.number(by < 0 ? -2 * by - 1 : 2 * by);
  }
  for (let node = 1; node < tokens.length; node++) to.number((scores[parents[node]!]! - scores[node]!) * SCORE);
  to.number(accepted.at(-1) ?? 0);
  for (const nats of entropies) to.number(nats * ENTROPY);
  for (const nats of draft_entropies) to.number(nats < 0 ? 0 : nats * ENTROPY + 1);
  if (bin !== undefined) {
    to.number(bin);
    to.number((phi ?? 0) * ENTROPY);
  }
  to.number(pruned.total);
  if (pruned.total === 0) return;
  to.number(pruned.tokens.length);
  to.tokens(pruned.tokens, pruned.texts);
  for (const parent of pruned.parents) to.number(parent);
  pruned.scores.forEach((score, i) => to.number(((pruned.scores[i - 1] ?? 0) - score) * SCORE));
}

/** Writes the parts of a trace in order. */
class Writer {
  readonly bytes: number[] = [];
  /** The dictionary of the trees: token id → index. */
  readonly #entries = new Map<number, number>();

  /** Writes a number, rounded. */
  number(value: number): void {
    let left = Math.round(value);
    for (; left >= 128; left = Math.floor(left / 128)) this.bytes.push((left % 128) + 128);
    this.bytes.push(left);
  }

  text(text: string): void {
    const characters = new TextEncoder().encode(text);
    this.number(characters.length);
    for (const one of characters) this.bytes.push(one);
  }

  tokens(ids: readonly number[], texts: readonly string[]): void {
    ids.forEach((id, i) => {
      const at = this.#entries.get(id);
      if (at !== undefined) return this.number(at);
      this.number(this.#entries.size);
      this.#entries.set(id, this.#entries.size);
      this.number(id);
      this.text(texts[i]!);
    });
  }
}
