/** A line about each method with what it gave, and the methods of the presets. */
import MEASURED from "./measured.json" with { type: "json" };

/** The methods of the presets, including plain decoding. */
export const PRESETS: readonly string[] = ["auto", "chain", "eagle2", "hetero", "ngram", "sampled", "mars", "none"];

const LINES: Readonly<Record<string, string>> = {
  none: "No draft: the target alone, one token per pass. The baseline of all comparisons.",
  auto: "Measures the cost of passes on this device and drafts only as much as pays off.",
  chain: "The draft writes a fixed number of tokens; the target checks them in one pass.",
  eagle2: "The draft grows a tree; the target checks its likeliest nodes in one pass.",
  static: "A tree of the same shape in every round.",
  sampled: "A tree sampled without replacement; tokens differ from plain decoding's, but have the same distribution.",
  ngram: "No draft model: proposes what followed the same words earlier in the text. Good for repetitive text.",
  "ngram-simple": "Looks for the last long run of the same tokens in the text.",
  "ngram-map": "Like simple lookup, with a map that grows with the text.",
  hetero: "Sorts rounds into entropy bins: predictable rounds draft deeper and verify fewer nodes.",
  c2t: "A small classifier decides which nodes of the tree to expand.",
  "c2t-chain": "A small classifier decides when the chain ends.",
  acceptance: "A trained head estimates acceptance and ends the tree when no branch is likely to be accepted.",
  "acceptance-chain": "A trained head estimates acceptance and ends the chain when it is unlikely to be accepted.",
  adaedl: "Ends the chain when the draft's entropy makes acceptance unlikely.",
  assisted: "A chain whose length adapts to the accepted tokens, as in transformers.",
  adasd: "Accepts draft tokens close to the target's distribution: the text may differ.",
  mars: "Accepts the target's second choice when it is nearly as likely as the first: the text may differ.",
  eagle3: "An EAGLE-3 head drafts the tree from the target's own features.",
};

/** Returns the line about a method, and what was measured; empty for an unknown method. */
export function lineOf(method: string): string {
  const measured: Readonly<Record<string, string>> = MEASURED;
  return [LINES[method], measured[method]].filter(Boolean).join(" ");
}
