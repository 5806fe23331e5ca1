/** The statistics of a comparison: a ratio of speeds, measured in pairs, with its confidence interval. */

/** A ratio with its interval; `confidence` is the probability that such an interval holds the true ratio. */
export interface Estimate {
  ratio: number;
  low: number;
  high: number;
  confidence: number;
}

/** The least confidence of an interval; fewer than six pairs reach less. */
const CONFIDENCE = 0.95;

/**
 * Estimates a ratio from the ratios of pairs: the estimator of Hodges and Lehmann on logarithms, which is the median of
 * the means of all two pairs (each pair with itself too), and the interval that inverts Wilcoxon's signed-rank test
 * (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd edition, sections 3.2 and 3.3). It assumes no
 * distribution, and pairs that other work disturbed hardly move it. The interval of one pair is its ratio, with
 * confidence 0; the interval of two to five pairs reaches from the least to the largest ratio.
 */
export function estimate(ratios: readonly number[]): Estimate {
  const logs = ratios.map(Math.log);
  const means = logs.flatMap((a, i) => logs.slice(i).map((b) => (a + b) / 2)).sort((a, b) => a - b);
  const { skip, confidence } = skipped(logs.length);
  const at = (index: number): number => Math.exp(means[index] ?? NaN);
  return { ratio: Math.exp(median(means)), low: at(skip), high: at(means.length - 1 - skip), confidence };
}

/** The number of means to leave out at each end of their list, and the confidence of the interval that stays. */
function skipped(pairs: number): { skip: number; confidence: number } {
  // ways[s] counts the sets of ranks 1 to `pairs` with the sum s: the distribution of the test's statistic.
  let ways = [1];
  for (let rank = 1; rank <= pairs; rank++)
    ways = Array.from({ length: ways.length + rank }, (_, sum) => (ways[sum] ?? 0) + (ways[sum - rank] ?? 0));
  const most = ((1 - CONFIDENCE) / 2) * 2 ** pairs;
  let skip = 0;
  let tail = ways[0]!;
  while (tail + ways[skip + 1]! <= most) tail += ways[++skip]!;
  return { skip, confidence: 1 - tail / 2 ** (pairs - 1) };
}

/** The median of a list; NaN for an empty one. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** How much a list varies: its upper quartile over its lower one. */
export function spread(values: readonly number[]): number {
  return quantile(values, 0.75) / quantile(values, 0.25);
}

/** The quantile of a list, between its two nearest values in proportion. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = share * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  return low === undefined || high === undefined ? NaN : low + (high - low) * (at % 1);
}
