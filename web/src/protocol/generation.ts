/** Requests to generate text, the events of their rounds and their results; protocol.ts passes them as JSON. */

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
export interface GenerateRequest {
  prompt: string;
  max_tokens?: number;
  temperature?: number;
  seed?: number;
  top_k_sampling?: number;
  /** 1 or missing: off; 0: the likeliest token alone. */
  top_p?: number;
  min_p?: number;
  /** A name of {@link Catalog.methods}; the fields after it override the method's settings. */
  policy?: string;
  /** The rule that adapts the draft from round to round. */
  adapt?: string;
  /** The drafter's model: "model" or "eagle3". */
  source?: string;
  /** "match" is exact, "rejection" and "without-replacement" in distribution, "mars" and "adasd" are lossy. */
  verifier?: string;
  /** Levels drafted per round, beams per level, and nodes verified (including the root). */
  depth?: number;
  top_k?: number;
  nodes?: number;
  /** Static and sampled trees: the number of children of the node of each rank, level by level. */
  shape?: number[][];
  ngram_max?: number;
  ngram_min?: number;
  /** Draft with the target's Gumbel noise at temperature > 0; default true. */
  coupled?: boolean | null;
  /** Assisted generation: confidence. AdaEDL: bound. C2T: β. Acceptance head: h; 0 derives it from measured costs. */
  threshold?: number;
  /** AdaEDL's λ. */
  lambda?: number;
  /** Assisted generation: how the length of the chain changes. */
  schedule?: string;
  /** Acceptance head: stop as soon as one branch is unlikely to be accepted. */
  any?: boolean;
  /** HeteroSpec: switch off parts of it; `alpha` is added to its α. */
  no_extension?: boolean;
  no_pruning?: boolean;
  no_adaptation?: boolean;
  alpha?: number;
  /** C2T: leave out the second pruning. */
  one_pruning?: boolean;
  /** MARS: θ, the largest gap in nats (0: no limit), and the mode. */
  theta?: number;
  gap?: number;
  mode?: string;
  /** AdaSD: how the threshold is computed, and whether the next request continues with it. */
  variant?: string;
  carry?: boolean;
  stop?: string[] | null;
  /** Tokens that end the text like the model's own end-of-text tokens; the one that was drawn is part of the text. */
  stop_token_ids?: number[] | null;
  /** Begin the text with the prompt. */
  echo?: boolean;
  /** Return the log-probability of each token, and of the likeliest alternatives at its position. */
  logprobs?: boolean;
  top_logprobs?: number;
  /** Constrain the text to one of: a grammar in GBNF, a JSON Schema, any JSON object. */
  grammar?: string;
  json_schema?: object;
  json_object?: boolean;
  /** JSON without white space, but for one space after a colon or a comma. */
  json_compact?: boolean;
  /**
   * Read what the schema leaves out as the standard does: objects may have further properties, after the named ones,
   * and a schema without a type allows values of every type. Default: the named properties only.
   */
  json_open?: boolean;
  /** Keywords, such as `uniqueItems`, to leave out where the text cannot be held to them; see {@link Result}. */
  unchecked?: string[];
  /** Subtracted from a token's logit for each occurrence in the text, and once if it occurs; -2 to 2. */
  frequency_penalty?: number;
  presence_penalty?: number;
  /** Added to the logits of tokens, by token id: -100 (never) to 100. */
  logit_bias?: Record<string, number>;
  /** Prefill all of the prompt instead of reusing the KV cache of earlier requests; the text is the same. */
  no_reuse?: boolean;
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
