/**
 * The running numbers of a generation, counted from its rounds; the engine's own
 * statistics replace them at the end. Words as users of speculative decoding
 * know them: the acceptance length counts the bonus token.
 */
import type { RoundEvent, RoundTimes, Stats, TokenKind } from "../protocol.ts";

export interface DepthCount {
  drafted: number;
  accepted: number;
}

export class Tally {
  rounds = 0;
  committed = 0;
  drafted = 0;
  accepted = 0;
  /** Rounds that drafted, and accepted at, depth i + 1. */
  readonly depths: DepthCount[] = [];
  readonly kinds: Record<TokenKind, number> = { plain: 0, accepted: 0, relaxed: 0, corrected: 0, bonus: 0 };
  /** Committed and accepted tokens of each round, for the chart; and those accepted that the target had chosen itself. */
  readonly committedPerRound: number[] = [];
  readonly strictPerRound: number[] = [];
  readonly acceptedPerRound: number[] = [];
  /** Nodes verified in each round, the root included, and those drafted, with the root and what was pruned. */
  readonly nodesPerRound: number[] = [];
  readonly draftedPerRound: number[] = [];
  /** Means over the accepted path of each round in nats, null where they are not known. */
  readonly targetEntropy: (number | null)[] = [];
  readonly draftEntropy: (number | null)[] = [];
  /** HeteroSpec's Φ and entropy bin of each round; null for other methods. */
  readonly phi: (number | null)[] = [];
  readonly bin: (number | null)[] = [];
  /** Milliseconds of each round. */
  readonly times: Record<keyof RoundTimes, number[]> = { draft: [], verify: [], readback: [], host: [] };
  ttftMs = 0;
  verified = 0;
  readonly #sum: RoundTimes = { draft: 0, verify: 0, readback: 0, host: 0 };
  #final: Stats | undefined;

  /** Takes in one round. */
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

  /** Takes the engine's own statistics, which also know what came before the first round. */
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

  /** Committed tokens per target pass, bonus included; 0 before the first. */
  get acceptanceLength(): number {
    return this.#final?.acceptance_length ?? ratio(this.committed, this.rounds);
  }

  get draftAcceptance(): number {
    return this.#final?.draft_acceptance ?? ratio(this.accepted, this.drafted);
  }

  /** Accepted at depth i + 1 out of the rounds that drafted it. */
  get perDepth(): number[] {
    return this.#final?.acceptance_per_depth ?? this.depths.map((at) => ratio(at.accepted, at.drafted));
  }

  /** Committed tokens over the time of the rounds, prefill apart. */
  get tokensPerSecond(): number {
    return this.#final?.decode_tok_s ?? ratio(this.committed, (this.#sum.draft + this.#sum.verify + this.#sum.host) / 1000);
  }

  get timeToFirstToken(): number {
    return this.#final?.ttft_ms ?? this.ttftMs;
  }

  get msPerRound(): RoundTimes {
    if (this.#final) return this.#final.ms_per_round;
    const { draft, verify, readback, host } = this.#sum;
    const n = Math.max(this.rounds, 1);
    return { draft: draft / n, verify: verify / n, readback: readback / n, host: host / n };
  }

  /** The acceptance length up to and including each round. */
  get runningLength(): number[] {
    let sum = 0;
    return this.committedPerRound.map((committed, i) => (sum += committed) / (i + 1));
  }
}

function ratio(part: number, whole: number): number {
  return whole > 0 ? part / whole : 0;
}

/** The mean of what is known, null where nothing is: entropies are never below 0. */
function meanOf(values: readonly number[]): number | null {
  const known = values.filter((value) => value >= 0);
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
