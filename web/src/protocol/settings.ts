/** Made of Go's table of settings by `make settings`; nothing in it is written by hand. */

/** The settings of a request. */
export interface RequestSettings {
  /** Drafting method; foretoken methods lists the names. */
  policy?: string;
  /** How the draft adapts from round to round. Takes fixed, hetero, c2t, acceptance, adaedl, assisted, adasd. */
  adapt?: string;
  /** Where drafted tokens come from. Takes model, eagle3. */
  source?: string;
  /**
   * Match (exactly the tokens of plain decoding), rejection or without-replacement (the same distribution), mars or
   * adasd (LOSSY). Takes match, rejection, without-replacement, mars, adasd.
   */
  verifier?: string;
  /** Above temperature 0, draft with the noise that the target samples with. */
  coupled?: boolean | null;
  /** Tokens drafted a round, or for trees levels after the first. */
  depth?: number;
  /** Trees: candidates of a node and nodes of a level. */
  top_k?: number;
  /** Trees: nodes verified a round, the root included. */
  nodes?: number;
  /** Static and sampled trees: the number of children of the node of each rank, level by level, as JSON. */
  shape?: number[][];
  /** N-grams: the longest that is looked up. */
  ngram_max?: number;
  /** N-grams: the shortest that is looked up. */
  ngram_min?: number;
  /**
   * Assisted: confidence; adaedl: bound; c2t: β; acceptance: h, by default derived from measured costs. Takes 0 (the
   * method's default) or more. Read by assisted, adaedl, c2t, acceptance.
   */
  threshold?: number;
  /** Λ, the weight of the entropy. Takes 0 (the method's default) or more. Read by adaedl. */
  lambda?: number;
  /**
   * Heuristic drafts two tokens more after full acceptance, else one less; constant keeps the number. Takes
   * heuristic, constant. Read by assisted.
   */
  schedule?: string;
  /** Stop as soon as one branch is likely lost, not when all are. Read by acceptance. */
  any?: boolean;
  /** End each branch that is likely lost, and let others grow; on a chain it changes nothing. Read by acceptance. */
  per_branch?: boolean;
  /** Leave out the second pruning. Read by c2t. */
  one_pruning?: boolean;
  /** Add this to α, the levels that the surest rounds draft deeper. Takes -64 to 64. Read by hetero. */
  alpha?: number;
  /** Leave out dynamic extended drafting. Read by hetero. */
  no_extension?: boolean;
  /** Leave out top-N pruning. Read by hetero. */
  no_pruning?: boolean;
  /** Leave out the programs prepared per bin. Read by hetero. */
  no_adaptation?: boolean;
  /**
   * Accept the second token when its logit is over this part of the first's. Takes 0 (the default, 0.9) to 1. Read by
   * mars.
   */
  theta?: number;
  /** And at most this many nats below it. Takes 0 (no cap) or more. Read by mars. */
  gap?: number;
  /** Alg1 emits the best token, sampled draws one. Takes alg1, sampled. Read by mars. */
  mode?: string;
  /** How the threshold weighs its means. Takes midpoint, A, B, C. Read by adasd. */
  variant?: string;
  /** Keep the thresholds from prompt to prompt. Read by adasd. */
  carry?: boolean;
  /** Temperature of the draws. Takes 0 (greedy) or 0.001 to 2. */
  temperature?: number;
  /** Seed of the draws above temperature 0; by every exact method one seed gives one text. */
  seed?: number;
  /** Sample from the k likeliest tokens only. Takes 0 (off) or 1 or more. */
  top_k_sampling?: number;
  /** Sample from the likeliest tokens whose probabilities sum to this; 0: the likeliest alone; 1: off. Takes 0 to 1. */
  top_p?: number | null;
  /** Sample from tokens with at least this share of the likeliest token's probability. Takes 0 (off) to 1. */
  min_p?: number;
  /** Tokens to produce. Takes 0 (until the context is full) or 1 or more. */
  max_tokens?: number;
  /** End the text before this string. */
  stop?: string[];
  /** End the text after the stop string. */
  include_stop_str_in_output?: boolean;
  /** End the text after these tokens, such as 13,198. */
  stop_token_ids?: number[];
  /** Begin the text with the prompt. */
  echo?: boolean;
  /** Return the log-probability of each token. */
  logprobs?: boolean;
  /** With logprobs: return as many of the likeliest tokens at each position. Takes 0 to 20. */
  top_logprobs?: number;
  /** Prefill every prompt from its beginning, without reusing the cache of the one before; the text is the same. */
  no_reuse?: boolean;
  /** Constrain the text to a grammar in GBNF, the notation of llama.cpp. */
  grammar?: string;
  /** Constrain the text to a JSON Schema. */
  json_schema?: object;
  /** Constrain the text to a JSON object. */
  json_object?: boolean;
  /** With a JSON Schema or object: no white space but one space after a colon or a comma. */
  json_compact?: boolean;
  /** With a JSON Schema: allow what it leaves out, such as properties that it does not name, as the standard does. */
  json_open?: boolean;
  /** Keywords of a JSON Schema to leave out where the text cannot be held to them, such as uniqueItems. */
  unchecked?: string[];
  /** Subtract this from a token's logit each time the token occurs in the text. Takes -2 to 2. */
  frequency_penalty?: number;
  /** Subtract this once from the logit of a token that occurs in the text. Takes -2 to 2. */
  presence_penalty?: number;
  /** Add this to the logit of a token; -100: never. Takes -100 to 100. */
  logit_bias?: Record<string, number>;
}

/** The attributes that set them. */
export const SETTINGS = [
  "policy",
  "adapt",
  "source",
  "verifier",
  "coupled",
  "depth",
  "top-k",
  "nodes",
  "shape",
  "ngram-max",
  "ngram-min",
  "threshold",
  "lambda",
  "schedule",
  "any",
  "per-branch",
  "one-pruning",
  "alpha",
  "no-extension",
  "no-pruning",
  "no-adaptation",
  "theta",
  "gap",
  "mode",
  "variant",
  "carry",
  "temperature",
  "seed",
  "top-k-sampling",
  "top-p",
  "min-p",
  "max-tokens",
] as const;
