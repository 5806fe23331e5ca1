/**
 * The statistics of a running generation, computed from its rounds; at the end the engine's statistics replace them.
 * The acceptance length includes the bonus token, as usual in speculative decoding.
 */
import type { RoundEvent, RoundTimes, Stats, TokenKind } from "../protocol/protocol.ts";

export interface DepthCount {
  drafted: number;
  accepted: number;
}

export class Tally {
  rounds = 0;
  committed = 0;
  drafted = 0;
  accepted = 0;
  /** The number of rounds that drafted depth i + 1, and that accepted a token there. */
  readonly depths: DepthCount[] = [];
  readonly kinds: Record<TokenKind, number> = { plain: 0, accepted: 0, relaxed: 0, corrected: 0, bonus: 0 };
  /** For each round: committed tokens, accepted tokens, and accepted tokens that the target chose. */
  readonly committedPerRound: number[] = [];
  readonly strictPerRound: number[] = [];
  readonly acceptedPerRound: number[] = [];
  /** For each round, including the root: verified nodes, and drafted nodes, of which some were pruned. */
  readonly nodesPerRound: number[] = [];
  readonly draftedPerRound: number[] = [];
  /** Mean entropies over the accepted path of each round in nats; null if unknown. */
  readonly targetEntropy: (number | null)[] = [];
  readonly draftEntropy: (number | null)[] = [];
  /** HeteroSpec: Φ and the entropy bin of each round; null for other methods. */
  readonly phi: (number | null)[] = [];
  readonly bin: (number | null)[] = [];
  /** Milliseconds of each round. */
  readonly times: Record<keyof RoundTimes, number[]> = { draft: [], verify: [], readback: [], host: [] };
  ttftMs = 0;
  verified = 0;
  readonly #sum: RoundTimes = { draft: 0, verify: 0, readback: 0, host: 0 };
  #final: Stats | undefined;

  /** Adds a round. */
  add(event: RoundEvent): void {
    const { tree, tokens } = event;
    if (tokens.length === 0) return; // a closing event, not a round
    if (this.rounds === 0) this.ttftMs = event.elapsed_ms;
    this.rounds++;
    this.committed += tokens.length;
    for (const { kind } of tokens) this.kinds[kind] = (this.kinds[kind] ?? 0) + 1;
    let drafted = 0;
    const seen = new Set<number>();
    for (const depth of tree.depths) {
      if (depth < 1) continue;
      drafted++;
      seen.add(depth);
    }
    for (const depth of seen) this.#at(depth).drafted++;
    let accepted = 0;
    for (const node of tree.accepted) {
      const depth = tree.depths[node] ?? 0;
      if (depth < 1) continue;
      accepted++;
      this.#at(depth).accepted++;
    }
    this.drafted += drafted;
    this.accepted += accepted;
    this.verified += drafted + 1; // the root is verified too
    this.committedPerRound.push(tokens.length);
    const both = Math.min(accepted, tokens.length);
    this.acceptedPerRound.push(both);
    this.strictPerRound.push(both - Math.min(both, tree.relaxed?.length ?? 0));
    for (const part of ["draft", "verify", "readback", "host"] as const) {
      this.#sum[part] += event.ms[part];
      this.times[part].push(event.ms[part]);
    }
    this.nodesPerRound.push(drafted + 1);
    this.draftedPerRound.push(drafted + 1 + tree.pruned.total);
    const path = [0, ...tree.accepted];
    this.targetEntropy.push(meanOf(path.map((node) => tree.entropies[node] ?? -1)));
    this.draftEntropy.push(meanOf(path.map((node) => tree.draft_entropies[node] ?? -1)));
    this.bin.push(event.bin || null);
    this.phi.push(event.bin ? (event.phi ?? 0) : null);
  }

  /** Replaces the statistics by the engine's, which include the time before the first round. */
  finish(stats: Stats): void {
    this.#final = stats;
  }

  #at(depth: number): DepthCount {
    while (this.depths.length < depth) this.depths.push({ drafted: 0, accepted: 0 });
    return this.depths[depth - 1]!;
  }

  get calls(): number {
    return this.#final?.calls ?? this.rounds;
  }

  get tokensVerified(): number {
    return this.#final?.tokens_verified ?? this.verified;
  }

  /** Committed tokens per target pass, including the bonus token; 0 before the first pass. */
  get acceptanceLength(): number {
    return this.#final?.acceptance_length ?? ratio(this.committed, this.rounds);
  }

  get draftAcceptance(): number {
    return this.#final?.draft_acceptance ?? ratio(this.accepted, this.drafted);
  }

  /** The share of rounds that accepted a token at depth i + 1, of the rounds that drafted it. */
  get perDepth(): number[] {
    return this.#final?.acceptance_per_depth ?? this.depths.map((at) => ratio(at.accepted, at.drafted));
  }

  /** Committed tokens per second of rounds, without prefill. */
  get tokensPerSecond(): number {
    return (
      this.#final?.decode_tok_s ?? ratio(this.committed, (this.#sum.draft + this.#sum.verify + this.#sum.host) / 1000)
    );
  }

  get timeToFirstToken(): number {
    return this.#final?.ttft_ms ?? this.ttftMs;
  }

  get msPerRound(): RoundTimes {
    if (this.#final) {
      const { draft_ms, verify_ms, readback_ms, host_ms } = this.#final;
      return { draft: draft_ms, verify: verify_ms, readback: readback_ms, host: host_ms };
    }
    const { draft, verify, readback, host } = this.#sum;
    const n = Math.max(this.rounds, 1);
    return { draft: draft / n, verify: verify / n, readback: readback / n, host: host / n };
  }

  /** The acceptance length after each round. */
  get runningLength(): number[] {
    let sum = 0;
    return this.committedPerRound.map((committed, i) => (sum += committed) / (i + 1));
  }
}

function ratio(part: number, total: number): number {
  return total > 0 ? part / total : 0;
}

/** Returns the mean of the known entropies, or null; an unknown entropy is negative. */
function meanOf(values: readonly number[]): number | null {
  const known = values.filter((value) => value >= 0);
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
