/** Requests to generate text, the events of their rounds and their results; protocol.ts passes them as JSON. */

import type { RequestSettings } from "./settings.ts";

export type Finish = "eos" | "length" | "context" | "stop" | "aborted";
/** A lossy verifier accepted a "relaxed" token although the target chose another one. */
export type TokenKind = "plain" | "accepted" | "relaxed" | "corrected" | "bonus";
/** Whether the output has the tokens of plain decoding, only their distribution, or neither. */
export type Exactness = "exact" | "distribution" | "lossy";

/**
 * Changes the logits by the text so far. It is asked once a pass with texts of token ids, those after the prompt at
 * each node of the draft's tree, and answers with one object for each: what is added to the logits of tokens, by id,
 * from -100, which rules a token out, to 100. A text's answer must depend on its tokens alone: then every method gives
 * the text of plain decoding. A pass waits for the answer.
 */
export type LogitsProcessor = (
  texts: number[][],
) => readonly Readonly<Record<number, number>>[] | Promise<readonly Readonly<Record<number, number>>[]>;

/** A request. Missing fields come from the method that `policy` names, then from the default request. */
export interface GenerateRequest extends RequestSettings {
  prompt: string;
  /** Rounds come with their trees; without it, {@link Generation.trace} has them after the last round. */
  trace?: boolean;
}

/** A committed token and its origin. `depth` is its depth in the draft tree, or 0 if it was not drafted. */
export interface EventToken {
  id: number;
  text: string;
  kind: TokenKind;
  depth: number;
  /** With `logprobs`: the text of this token alone, ln of its probability, and the best alternatives. */
  piece?: string;
  logprob?: number;
  top?: { id: number; text: string; logprob: number }[];
}

/** The tree verified in a round; `parents` holds node indices, -1 for the root. */
export interface EventTree {
  tokens: number[];
  texts: string[];
  parents: number[];
  depths: number[];
  scores: number[];
  /** Indices of the accepted nodes. */
  accepted: number[];
  /** Indices of the accepted nodes that the target did not choose. */
  relaxed: number[];
  /** Entropy of the target's distribution after each node, in nats; empty if the verifier does not compute it. */
  entropies: number[];
  /** Entropy of the draft's distribution after each node, in nats; -1 if the draft did not expand the node. */
  draft_entropies: number[];
  /**
   * The drafted nodes with the best scores that were pruned before verification; `total` counts all of them. Parents
   * come first in the list. A parent index of at least the tree's length refers to this list.
   */
  pruned: { tokens: number[]; texts: string[]; parents: number[]; scores: number[]; total: number };
}

/** Times in milliseconds; `readback`, the wait for results, is included in `draft` and `verify`. */
export interface RoundTimes {
  draft: number;
  verify: number;
  readback: number;
  host: number;
}

/**
 * The tokens of one round and the figures of its tree; `text` never ends inside a UTF-8 sequence. The last event of a
 * generation may have no tokens.
 */
export interface RoundEvent {
  round: number;
  text: string;
  tokens: EventToken[];
  /** With `trace`: the tree that was verified; scores are exact to 1/64 nat, entropies to 1/32 nat. */
  tree?: EventTree;
  /** The number of drafted nodes that were pruned before verification. */
  pruned: number;
  /** Mean entropies of the target's and the draft's distributions along the accepted path, in nats, if known. */
  entropy?: number;
  draft_entropy?: number;
  /** HeteroSpec: the round's entropy bin, from 1, and Φ of its meta-path in nats. */
  bin?: number;
  phi?: number;
  ms: RoundTimes;
  /** Of the request so far, this round included. */
  counts: Counts;
  elapsed_ms: number;
  finish?: Finish;
}

export interface Counts {
  /** Target passes, and the rows of them: nodes of trees, roots included. */
  calls: number;
  tokens_verified: number;
  /** Tokens of the text, an end-of-text token included. */
  output_tokens: number;
  drafted: number;
  accepted: number;
  /** Tokens accepted although the target chose another. */
  relaxed: number;
  corrected: number;
  bonus: number;
  plain: number;
  /** The number of rounds that drafted depth i + 1, and that accepted a token there. */
  depth_drafted: number[];
  depth_accepted: number[];
}

export interface Stats extends Counts {
  rounds: number;
  /** `auto` went by guesses of how long passes take, because they were not timed before the request. */
  guessed?: boolean;
  /** How often the device was lost and reopened during the request. */
  recoveries?: number;
  /** Time of reopening, including failed attempts; the other times exclude it. */
  recovery_ms?: number;
  /** The verifier may commit tokens that the target would not choose. */
  lossy: boolean;
  /** Sums of the distances of draft and target over the tokens that AdaSD's verifier compared. */
  distances?: Record<"accepted" | "rejected", { sum: number; tokens: number }>;
  /** Totals for each entropy bin of HeteroSpec. `tcr` counts rounds by the rank of the last accepted node. */
  bins?: { rounds: number; tokens_verified: number; accepted: number; full: number; tcr: number[]; phi: number[] }[];
  /** Committed tokens per target pass, including the bonus token. */
  acceptance_length: number;
  acceptance_per_depth: number[];
  draft_acceptance: number;
  /** Mean milliseconds of a round; `readback_ms` is included in `draft_ms` and `verify_ms`. */
  draft_ms: number;
  verify_ms: number;
  readback_ms: number;
  host_ms: number;
  ttft_ms: number;
  /** Tokens of the prompt; of these, the tokens reused from the KV cache and the tokens prefilled. */
  prompt_tokens: number;
  reused: number;
  prefilled: number;
  prefill_tok_s: number;
  decode_tok_s: number;
  total_ms: number;
}

export interface Result {
  text: string;
  prompt_ids: number[];
  token_ids: number[];
  finish: Finish;
  stats: Stats;
  /** The keywords of the schema that the text is not held to, as JSON Pointers; absent if there are none. */
  unchecked?: string[];
}
