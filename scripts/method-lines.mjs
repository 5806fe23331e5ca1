/**
 * web/src/widget/measured.json: a sentence about each method with what it gave, which the page's list of methods shows.
 * A mark in braces is a figure of a report, as pages mark it.
 */
export const FILE = "web/src/widget/measured.json";

const LINES = {
  auto: "Measured: {auto auto.speedup} the speed of plain decoding on a software GPU.",
  chain: "Measured: {methods chain-4.tau} tokens a pass with chains of 4.",
  eagle2: "Measured: {hetero EAGLE-2.tau} tokens a pass with 60 nodes, {methods eagle2-4-4-16.tau} with 16.",
  ngram: "Measured: {methods ngram.tau} tokens a pass.",
  "ngram-simple": "Measured: {methods ngram-simple.tau} tokens a pass.",
  "ngram-map": "Measured: {methods ngram-map.tau} tokens a pass.",
  hetero:
    "Measured with the EAGLE-3 head: Tokens {hetero HeteroSpec-head.tokens_ratio}, " +
    "Calls {hetero HeteroSpec-head.calls_ratio} against the same tree without bins.",
  c2t:
    "Measured at β = 0.7: {c2t β=0.7.tau} tokens a pass of {c2t β=0.7.rows_a_pass} rows; a fixed tree has " +
    "{c2t N=16.tau} of {c2t N=16.rows_a_pass}.",
  "c2t-chain": "Measured: {methods c2t-chain.tau} tokens a pass.",
  acceptance: "Measured: Tokens {acceptance head-tree.tokens_ratio} against the same tree.",
  "acceptance-chain":
    "Measured: Tokens {acceptance head-chain.tokens_ratio}, τ {acceptance head-chain.tau_ratio} against a chain of 6.",
  adaedl: "Measured: {methods adaedl.tau} tokens a pass of {methods adaedl.rows_a_pass} rows.",
  assisted: "Measured: {methods assisted.tau} tokens a pass of {methods assisted.rows_a_pass} rows.",
  adasd:
    "Measured against chains of 5: tokens a pass {papers-adasd draft, adasd midpoint (200 tokens).tau_ratio}, " +
    "{papers-adasd draft, adasd midpoint (200 tokens).exact} texts unchanged.",
  mars: "Measured: tokens a pass {lossy mars.tau_ratio} on chains of 5, {lossy mars.exact} texts unchanged.",
  eagle3: "Measured: {eagle3 head-tree.tau} tokens a pass; the small draft has {eagle3 draft-tree.tau}.",
};

/** The file's text. */
export function methodLines(reports) {
  const entries = Object.entries(LINES).map(([method, line]) => [
    method,
    line.replace(/\{(.+?)\}/g, (_, mark) => reports.figure(mark)),
  ]);
  return `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;
}
