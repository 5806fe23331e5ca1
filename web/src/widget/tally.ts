/**
 * The statistics of a running generation: the engine's counts after each round, and series for the charts; at the end
 * the engine's statistics replace them. The acceptance length includes the bonus token, as usual in speculative
 * decoding.
 */
import type { Counts, RoundEvent, RoundTimes, Stats, TokenKind } from "../protocol/protocol.ts";

export class Tally {
  rounds = 0;
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
  readonly #sum: RoundTimes = { draft: 0, verify: 0, readback: 0, host: 0 };
  #counts: Counts | undefined;
  #final: Stats | undefined;

  /** Adds a round. */
  add(event: RoundEvent): void {
    const { tokens } = event;
    if (tokens.length === 0) return; // a closing event, not a round
    if (this.rounds === 0) this.ttftMs = event.elapsed_ms;
    this.rounds++;
    const nodes = event.counts.tokens_verified - (this.#counts?.tokens_verified ?? 0);
    this.#counts = event.counts;
    const of = (kind: TokenKind): number => tokens.filter((token) => token.kind === kind).length;
    this.committedPerRound.push(tokens.length);
    this.strictPerRound.push(of("accepted"));
    this.acceptedPerRound.push(of("accepted") + of("relaxed"));
    for (const part of ["draft", "verify", "readback", "host"] as const) {
      this.#sum[part] += event.ms[part];
      this.times[part].push(event.ms[part]);
    }
    this.nodesPerRound.push(nodes);
    this.draftedPerRound.push(nodes + event.pruned);
    this.targetEntropy.push(event.entropy ?? null);
    this.draftEntropy.push(event.draft_entropy ?? null);
    this.bin.push(event.bin || null);
    this.phi.push(event.bin ? (event.phi ?? 0) : null);
  }

  /** Replaces the statistics by the engine's, which include the time before the first round. */
  finish(stats: Stats): void {
    this.#final = stats;
  }

  /** The number of committed tokens of each kind. */
  get kinds(): Record<TokenKind, number> {
    const { plain = 0, accepted = 0, relaxed = 0, corrected = 0, bonus = 0 } = this.#counts ?? {};
    return { plain, accepted: accepted - relaxed, relaxed, corrected, bonus };
  }

  get calls(): number {
    return (this.#final ?? this.#counts)?.calls ?? 0;
  }

  get tokensVerified(): number {
    return (this.#final ?? this.#counts)?.tokens_verified ?? 0;
  }

  /** Committed tokens per target pass, including the bonus token; 0 before the first pass. */
  get acceptanceLength(): number {
    return this.#final?.acceptance_length ?? ratio(this.#counts?.output_tokens, this.#counts?.calls);
  }

  get draftAcceptance(): number {
    return this.#final?.draft_acceptance ?? ratio(this.#counts?.accepted, this.#counts?.drafted);
  }

  /** The share of rounds that accepted a token at depth i + 1, of the rounds that drafted it. */
  get perDepth(): number[] {
    const { depth_accepted = [], depth_drafted = [] } = this.#counts ?? {};
    return this.#final?.acceptance_per_depth ?? depth_drafted.map((drafted, i) => ratio(depth_accepted[i], drafted));
  }

  /** Committed tokens per second of rounds, without prefill. */
  get tokensPerSecond(): number {
    const { draft, verify, host } = this.#sum;
    return this.#final?.decode_tok_s ?? ratio(this.#counts?.output_tokens, (draft + verify + host) / 1000);
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

function ratio(part = 0, total = 0): number {
  return total > 0 ? part / total : 0;
}
