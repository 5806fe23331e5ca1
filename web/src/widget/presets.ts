/** What each method does, in a line, and those that are offered first. */

/** The methods offered as presets, plain decoding among them. */
export const PRESETS: readonly string[] = ["auto", "chain", "eagle2", "hetero", "ngram", "sampled", "mars", "none"];

const LINES: Readonly<Record<string, string>> = {
  none: "No draft: the target alone, one token a pass. What everything else is compared with.",
  auto: "Measures what passes cost on this device and drafts as much as pays, or nothing.",
  chain: "The draft writes a fixed number of tokens; the target checks them in one pass.",
  eagle2: "The draft grows a tree and the likeliest nodes of it are checked in one pass.",
  static: "A tree of the same shape every round.",
  sampled: "A tree drawn without replacement; other tokens than plain decoding's, from the same distribution.",
  ngram: "No draft model: what followed the same words earlier in the text. Good where text repeats.",
  "ngram-simple": "Looks for the last long run of the same tokens in the text.",
  "ngram-map": "As simple lookup, from a map that is kept up as the text grows.",
  hetero: "Sorts rounds into entropy bins: predictable ones draft deeper, all of them prune what is unlikely.",
  c2t: "A small classifier decides which nodes of the tree are worth drafting on.",
  "c2t-chain": "A small classifier decides when the chain ends.",
  acceptance: "A trained head estimates acceptance and ends the tree when no branch is likely to pass.",
  "acceptance-chain": "A trained head estimates acceptance and ends the chain when it is unlikely to pass.",
  adaedl: "Ends the chain when the draft's entropy says that acceptance is unlikely.",
  assisted: "A chain whose length follows what was accepted, as in transformers.",
  adasd: "Accepts draft tokens near enough to the target's distribution: the text may differ.",
  mars: "Accepts the target's second choice when it is nearly as likely as the first: the text may differ.",
  eagle3: "An EAGLE-3 head drafts the tree from the target's own features.",
};

/** A line on a method; empty for one that the page does not know. */
export function lineOf(method: string): string {
  return LINES[method] ?? "";
}
