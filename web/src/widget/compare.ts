/**
 * Compares plain and speculative decoding: runs the same prompt and settings in turn on the same engine, and compares
 * their speeds and their tokens.
 */
import settings from "foretoken:settings";
import type { Engine, Generation } from "../engine/engine.ts";
import { exactnessOf } from "../engine/methods.ts";
import type { Exactness, GenerateRequest, PassCost, Result, RoundEvent } from "../protocol/protocol.ts";
import { type Estimate, estimate, median, spread } from "./interval.ts";
import { explain } from "./row-costs.ts";

export interface Comparison {
  /**
   * A run of each: of the late turn with the ratio nearest to `ratio`, or of the first turn in which the tokens of an
   * exact method differ.
   */
  plain: Result;
  speculative: Result;
  /** The rounds of these runs with their trees, for `readTrace`. */
  traces: { plain: Uint8Array; speculative: Uint8Array };
  /** The rounds of `speculative`, without trees. */
  rounds: readonly RoundEvent[];
  /** How often both were timed, in turn. */
  turns: number;
  /** Medians over all turns: both speeds, and the tokens per step of speculation. */
  plain_tok_s: number;
  speculative_tok_s: number;
  acceptance_length: number;
  /** Whether `auto` guessed in a run how long steps take, because it had not timed them. */
  guessed: boolean;
  /** Speed of speculative over plain decoding; below 1, speculation is slower. NaN if the texts were too short. */
  ratio: number;
  /**
   * The interval of `ratio`, and its confidence: at least 0.95 from six turns on; see `estimate` in
   * widget/interval.ts for the method.
   */
  interval: [low: number, high: number];
  confidence: number;
  /** How much the speed of plain decoding varied, which does the same work each time: upper over lower quartile. */
  plain_spread: number;
  /** Other work disturbed the turns: plain decoding varied, and the interval is wide. */
  disturbed: boolean;
  /** What the target's passes cost here by rows; missing if `disturbed`, or if timing them would take too long. */
  costs?: readonly PassCost[];
  identical: boolean;
  /** Index of the first token that differs, -1 when identical. */
  difference: number;
  /** Number of equal tokens at equal positions, and the length of the longer output. */
  equal: number;
  length: number;
  /** The exactness that the method guarantees. */
  exactness: Exactness;
  /** Whether the method guarantees equal tokens: it is exact, or exact in distribution and greedy. */
  exact: boolean;
  /** What came out, in words. */
  verdict: Verdict;
}

/** A comparison in words. */
export interface Verdict {
  /** Which way was faster, with the interval, and whether the texts are equal. */
  line: string;
  /** Why it came out so, or "". */
  why: string;
  /** The tokens in detail. */
  tokens: string;
  /** False if the tokens of an exact method differ. */
  good: boolean;
}

/** What a running comparison has done. */
export interface CompareProgress {
  /** In words. */
  text: string;
  /** The share that is done, from 0 to 1. */
  done: number;
}

export interface CompareHooks {
  /** How often both run, in turn; default: until the interval is narrow, or fifteen seconds have passed. */
  turns?: number | undefined;
  onProgress?: ((progress: CompareProgress) => void) | undefined;
  /** The time in milliseconds; tests replace it. */
  now?: (() => number) | undefined;
}

/** Milliseconds of turns after which no other begins. */
const LIMIT = 15_000;
/** Milliseconds of decoding after which the untimed run ends, and the fewest tokens of it: all runs get its length. */
const LONGEST = LIMIT / 4;
const SHORTEST = 16;
/** The fewest pairs whose interval has a confidence of 95 %. */
const FEWEST = 6;
/** An interval of a ratio near 1 is narrow if its ends differ by this factor. */
const NARROW = 1.08;
/** A wider one does where the ratio is far from 1: this share of its distance, in logarithms. */
const FAR = 0.25;
/**
 * Other work disturbs a comparison whose interval's ends and plain decoding's quartiles differ by more than these
 * factors.
 */
const WIDE = 1.25;
const DISTURBED = 1.15;
/** The last turns, of which one is shown. */
const LATE = 8;
/** The rows of the timed passes, how often each runs, and the milliseconds that all may take. */
const ROWS = [1, 2, 4, 8, 16];
const REPEAT = 3;
const COSTS_LIMIT = 1500;

/** Returns the request for plain decoding, with the sampling, the constraints and the length of `request`. */
export function plainOf(request: GenerateRequest): GenerateRequest {
  const plain: GenerateRequest = { prompt: request.prompt, policy: "none" };
  for (const { name, group } of settings)
    if (group !== "method" && group !== "parts" && request[name] !== undefined)
      Object.assign(plain, { [name]: request[name] });
  return plain;
}

/** A run with its rounds. */
interface Run {
  result: Result;
  rounds: RoundEvent[];
  trace: Uint8Array;
}

interface Turn {
  plain: Run;
  speculative: Run;
  ratio: number;
}

type Way = "plain" | "speculative";

/**
 * Decodes once each way without timing, so that neither pays for compilation, and to find a length that leaves time for
 * several turns. Then runs both in turn, alternating which
 * comes first, so that a machine that slows down favours neither; nothing is drawn meanwhile. Returns undefined if
 * `stop` aborts.
 */
export async function compare(
  engine: Pick<Engine, "generate" | "costs">,
  request: GenerateRequest,
  { turns: wanted, onProgress, now = () => performance.now() }: CompareHooks = {},
  stop?: AbortSignal,
): Promise<Comparison | undefined> {
  const requests: Record<Way, GenerateRequest> = { plain: plainOf(request), speculative: { ...request } };
  const run = async (way: Way, longest = Infinity): Promise<Run | undefined> => {
    if (stop?.aborted) return undefined;
    const { prompt, ...rest } = requests[way];
    // Neither run may reuse the other one's prefill.
    const running: Generation = engine.generate(prompt, { ...rest, trace: false, no_reuse: true });
    const end = (): void => running.stop();
    stop?.addEventListener("abort", end);
    const rounds: RoundEvent[] = [];
    let first: number | undefined; // the time of the first round
    let cut = false;
    for await (const round of running) {
      rounds.push(round);
      first ??= now();
      if (now() - first < longest || round.counts.output_tokens < SHORTEST) continue;
      for (const one of Object.values(requests)) one.max_tokens = round.counts.output_tokens;
      cut = true;
      break; // which stops it
    }
    const result = await running.result;
    stop?.removeEventListener("abort", end);
    if (result.finish === "aborted" && !cut) return undefined;
    return { result, rounds, trace: await running.trace() };
  };

  onProgress?.({ text: "Decoding once each way first, which does not count", done: 0 });
  if (!(await run("plain", LONGEST)) || !(await run("speculative"))) return undefined;
  const begin = now();
  const exactness = exactnessOf(request);
  const exact = exactness === "exact" || (exactness === "distribution" && !request.temperature);
  const ratios: number[] = [];
  const speeds: Record<Way | "acceptance", number[]> = { plain: [], speculative: [], acceptance: [] };
  const late: Turn[] = [];
  let different: Turn | undefined;
  let guessed = false;
  let of: Estimate;
  for (;;) {
    const first: Way = ratios.length % 2 === 0 ? "plain" : "speculative";
    const one = await run(first);
    const other = one && (await run(first === "plain" ? "speculative" : "plain"));
    if (!other) return undefined;
    const [plain, speculative] = first === "plain" ? [one, other] : [other, one];
    const ratio = speculative.result.stats.decode_tok_s / plain.result.stats.decode_tok_s;
    const turn = { plain, speculative, ratio };
    ratios.push(ratio);
    speeds.plain.push(plain.result.stats.decode_tok_s);
    speeds.speculative.push(speculative.result.stats.decode_tok_s);
    speeds.acceptance.push(speculative.result.stats.acceptance_length);
    guessed ||= speculative.result.stats.guessed === true;
    late.push(turn);
    if (late.length > LATE) late.shift();
    if (exact && firstDifference(plain.result.token_ids, speculative.result.token_ids) >= 0) different ??= turn;
    of = estimate(ratios);
    const elapsed = now() - begin;
    const narrow = ratios.length >= FEWEST && width(of) <= 1;
    if (wanted !== undefined ? ratios.length >= wanted : narrow || elapsed >= LIMIT || !(of.ratio > 0)) break;
    // The width of an interval falls with the root of the number of its pairs.
    const done = wanted ? ratios.length / wanted : Math.max(elapsed / LIMIT, Math.min(1, 1 / width(of)) ** 2);
    const so = ratios.length < 2 ? "" : `: ${range(of.low, of.high)} times as fast so far`;
    onProgress?.({ text: `Turn ${ratios.length + 1}${so}`, done: Math.min(done, ratios.length / FEWEST) });
  }
  const distance = ({ ratio }: Turn): number => Math.abs(Math.log(ratio / of.ratio));
  const shown = different ?? late.reduce((best, turn) => (distance(turn) < distance(best) ? turn : best));
  const [plain, speculative] = [shown.plain.result, shown.speculative.result];
  const difference = firstDifference(plain.token_ids, speculative.token_ids);
  const varied = spread(speeds.plain);
  const disturbed = varied > DISTURBED && of.high / of.low > WIDE;
  const costs = disturbed ? undefined : await costsOf(engine, plain.stats.verify_ms, stop);
  const measured: Omit<Comparison, "verdict"> = {
    plain,
    speculative,
    traces: { plain: shown.plain.trace, speculative: shown.speculative.trace },
    rounds: shown.speculative.rounds,
    turns: ratios.length,
    plain_tok_s: median(speeds.plain),
    speculative_tok_s: median(speeds.speculative),
    acceptance_length: median(speeds.acceptance),
    guessed,
    ratio: of.ratio,
    interval: [of.low, of.high],
    confidence: of.confidence,
    plain_spread: varied,
    disturbed,
    ...(costs ? { costs } : {}),
    identical: difference < 0,
    difference,
    equal: plain.token_ids.filter((id, i) => id === speculative.token_ids[i]).length,
    length: Math.max(plain.token_ids.length, speculative.token_ids.length),
    exactness,
    exact,
  };
  return { ...measured, verdict: verdictOf(measured) };
}

/** Times the passes of the first of ROWS that fit into COSTS_LIMIT, if a pass over one row takes `ms`. */
async function costsOf(
  engine: Pick<Engine, "costs">,
  ms: number,
  signal?: AbortSignal,
): Promise<PassCost[] | undefined> {
  let all = 0;
  const rows = ROWS.filter((n) => (all += n * ms * (REPEAT + 1)) <= COSTS_LIMIT); // one more pass is untimed
  if (rows.length < 2) return undefined;
  try {
    return (await engine.costs({ rows, repeat: REPEAT, tokens: 1 }, { signal })).verify;
  } catch {
    return undefined; // stopped, or the context is too short: the comparison stands without them
  }
}

/** The width of an interval, in units of the widest narrow one. */
function width({ ratio, low, high }: Pick<Estimate, "ratio" | "low" | "high">): number {
  return Math.log(high / low) / Math.max(Math.log(NARROW), FAR * Math.abs(Math.log(ratio)));
}

/** Returns the index of the first difference of two sequences, or -1. */
export function firstDifference(a: readonly number[], b: readonly number[]): number {
  const n = Math.max(a.length, b.length);
  for (let i = 0; i < n; i++) if (a[i] !== b[i]) return i;
  return -1;
}

/** How much the tokens a pass may fall short of a ratio of speeds before the ratio counts as the machine's noise. */
const SLACK = 1.1;

/**
 * Says whether a ratio of speeds comes from the machine and not from the method: a pass of the target takes at least as
 * long with a draft as without one, so the ratio of the speeds cannot exceed the tokens a pass.
 */
export function isNoise(ratio: number, tokensPerPass: number): boolean {
  return ratio > 1.005 && ratio > SLACK * tokensPerPass;
}

const range = (low: number, high: number): string => `${low.toFixed(2)} to ${high.toFixed(2)}`;

/** Describes a comparison in words. */
export function verdictOf(c: Omit<Comparison, "verdict">): Verdict {
  const { line, slower } = speedOf(c);
  const same = c.identical ? c.length : c.difference;
  const text = c.identical
    ? `the same ${c.length} tokens`
    : c.exact
      ? `but the text differs from token ${c.difference + 1} on`
      : `${c.equal} of ${c.length} tokens the same`;
  const written = c.acceptance_length;
  const took =
    written < 1.05
      ? "Hardly anything was guessed."
      : `A step wrote ${written.toFixed(1)} tokens and took ${(written / c.ratio).toFixed(1)} times as long.`;
  const parts = [slower && took, slower && c.costs && explain(c.costs), c.guessed && "Steps were not timed yet."];
  const why = parts.filter(Boolean).join(" ");
  const all = { line: `${line}, ${text}`, why, good: true };
  if (c.exact) {
    if (c.identical) return { ...all, tokens: `Identical: all ${c.length} tokens are the same.` };
    const tokens = `Not identical: the outputs differ from token ${c.difference + 1} on. This is a bug.`;
    return { ...all, tokens, good: false };
  }
  const agreement = `Agreement: ${c.equal} of ${c.length} tokens equal plain decoding's, including the first ${same}.`;
  if (c.exactness === "distribution")
    return { ...all, tokens: `${agreement} The method preserves the distribution, not the tokens.` };
  const relaxed = c.speculative.stats.relaxed ?? 0;
  return { ...all, tokens: `${agreement} The lossy method relaxed ${relaxed}.` };
}

/**
 * Says which way was faster, as far as the interval tells. If other work disturbed the machine, it tells nothing unless
 * it lies further from 1 than half its width: plain decoding does the same work in each turn, so its spread shows that.
 */
function speedOf(c: Omit<Comparison, "verdict">): { line: string; slower: boolean } {
  const [low, high] = c.interval;
  const times = c.ratio.toFixed(c.ratio < 9.95 ? 2 : 1);
  const within = `, ${range(low, high)}${c.turns < FEWEST ? ` in ${c.turns} turns` : ""}`;
  if (!Number.isFinite(c.ratio)) return { line: "Too few tokens to compare the speeds", slower: false };
  if (c.turns === 1) return { line: `${times} times the speed in one turn, which is too few to tell`, slower: false };
  if (isNoise(c.ratio, c.acceptance_length))
    return { line: `No clear result: other work slowed plain decoding${within}`, slower: false };
  if (c.disturbed && Math.max(low, 1 / high) < Math.sqrt(high / low))
    return { line: `No clear result: other work disturbed the measurement${within}`, slower: false };
  if (low > 1) return { line: `${times} times as fast${within}`, slower: false };
  if (high < 1) return { line: `Slower here: ${times} times the speed${within}`, slower: true };
  return { line: `About the same here: ${times} times the speed${within}`, slower: c.ratio < 1 };
}
