/**
 * Compares plain and speculative decoding: runs the same prompt and settings in turn on the same engine, and compares
 * the medians of their speeds, and their tokens.
 */
import settings from "foretoken:settings";
import type { Engine, Generation } from "../engine/engine.ts";
import { configOf, exactnessOf } from "../engine/methods.ts";
import type { Exactness, GenerateRequest, Result, RoundEvent } from "../protocol/protocol.ts";

export interface Comparison {
  /** One run each: the last, or the first in which the tokens of an exact method differ. */
  plain: Result;
  speculative: Result;
  /** Medians over all runs: both speeds, and the tokens per step of speculation. */
  plain_tok_s: number;
  speculative_tok_s: number;
  acceptance_length: number;
  /** Whether `auto` guessed in a run how long steps take, because it had not timed them. */
  guessed: boolean;
  /** Speed of speculative over plain decoding; below 1, speculation is slower. */
  ratio: number;
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
}

export interface CompareHooks {
  /** How often both run, in turn; default: at least twice, until both have decoded for `ENOUGH` seconds. */
  turns?: number | undefined;
  /** Called before each part. */
  onPart?: (part: "warm-up" | "plain" | "speculative", request: GenerateRequest) => void;
  onRound?: (event: RoundEvent) => void;
  /** Receives each running part, to stop it. */
  onRun?: (run: Generation) => void;
}

/** The methods that each engine has run before; drivers and engines of WebAssembly compile during the first run. */
const warmed = new WeakMap<object, Set<string>>();

/** Seconds of decoding that a comparison needs: the machine's noise would decide two turns of a shorter text. */
const ENOUGH = 1;
const MOST_TURNS = 8;

/** Returns the request for plain decoding, with the sampling, the constraints and the length of `request`. */
export function plainOf(request: GenerateRequest): GenerateRequest {
  const plain: GenerateRequest = { prompt: request.prompt, policy: "none" };
  for (const { name, group } of settings)
    if (group !== "method" && group !== "parts" && request[name] !== undefined)
      Object.assign(plain, { [name]: request[name] });
  return plain;
}

/** Runs both; undefined if stopped. */
export async function compare(
  engine: Pick<Engine, "generate">,
  request: GenerateRequest,
  hooks: CompareHooks = {},
): Promise<Comparison | undefined> {
  const run = async (
    part: "warm-up" | "plain" | "speculative",
    settings: GenerateRequest,
  ): Promise<Result | undefined> => {
    hooks.onPart?.(part, settings);
    // Neither run may reuse the other one's prefill.
    const running = engine.generate(settings.prompt, { ...settings, no_reuse: true });
    hooks.onRun?.(running);
    for await (const event of running) if (part !== "warm-up") hooks.onRound?.(event);
    const result = await running.result;
    return result.finish === "aborted" ? undefined : result;
  };
  const done = warmed.get(engine) ?? new Set<string>();
  warmed.set(engine, done);
  const asPlain = plainOf(request);
  // Decode once by each method before any run is timed, so that none pays for compilation.
  for (const settings of [asPlain, request]) {
    const { drafter, adapt, source, verifier, depth, top_k, nodes, shape } = configOf(settings);
    const key = JSON.stringify([drafter, adapt, source, verifier, depth, top_k, nodes, shape]);
    if (done.has(key)) continue;
    if (!(await run("warm-up", settings))) return undefined;
    done.add(key);
  }
  const runs: { plain: Result; speculative: Result }[] = [];
  let ran = 0;
  do {
    const plain = await run("plain", asPlain);
    const speculative = plain && (await run("speculative", request));
    if (!speculative) return undefined;
    runs.push({ plain, speculative });
    for (const { token_ids, stats } of [plain, speculative]) ran += token_ids.length / stats.decode_tok_s;
  } while (runs.length < (hooks.turns ?? (ran < ENOUGH ? MOST_TURNS : 2)));
  const speed = (way: "plain" | "speculative"): number => median(runs.map((one) => one[way].stats.decode_tok_s));
  const [plain_tok_s, speculative_tok_s] = [speed("plain"), speed("speculative")];
  const exactness = exactnessOf(request);
  const exact = exactness === "exact" || (exactness === "distribution" && !request.temperature);
  const differs = (one: (typeof runs)[0]): number => firstDifference(one.plain.token_ids, one.speculative.token_ids);
  const { plain, speculative } = runs.find((one) => exact && differs(one) >= 0) ?? runs.at(-1)!;
  const difference = differs({ plain, speculative });
  return {
    plain,
    speculative,
    plain_tok_s,
    speculative_tok_s,
    ratio: plain_tok_s > 0 ? speculative_tok_s / plain_tok_s : NaN,
    identical: difference < 0,
    difference,
    equal: plain.token_ids.filter((id, i) => id === speculative.token_ids[i]).length,
    length: Math.max(plain.token_ids.length, speculative.token_ids.length),
    exactness,
    exact,
    acceptance_length: median(runs.map((one) => one.speculative.stats.acceptance_length)),
    guessed: runs.some((one) => one.speculative.stats.guessed === true),
  };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
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

/** Describes a comparison in one line, says why it came out so, and describes its tokens in detail. */
export function verdict(c: Comparison): { line: string; why: string; tokens: string; good: boolean } {
  const times = `${c.ratio.toFixed(c.ratio < 1.95 ? 2 : 1)}×`;
  const same = c.identical ? c.length : c.difference;
  const text = c.identical
    ? `the same ${c.length} tokens`
    : c.exact
      ? `but the text differs from token ${c.difference + 1} on`
      : `${c.equal} of ${c.length} tokens the same`;
  const line = !Number.isFinite(c.ratio)
    ? `Too few tokens to compare the speeds, ${text}`
    : isNoise(c.ratio, c.acceptance_length)
      ? `No clear result, ${text}: other work slowed plain decoding`
      : c.ratio >= 1.005
        ? `${times} faster, ${text}`
        : c.ratio > 0.995
          ? `As fast as plain decoding here, ${text}`
          : `Slower here: ${times} the speed, ${text}`;
  const written = c.acceptance_length;
  const took = `A step wrote ${written.toFixed(1)} tokens and took ${(written / c.ratio).toFixed(1)} times as long.`;
  const lost = c.ratio <= 0.995 ? took : "";
  const why = `${lost} ${c.guessed ? "Steps were not timed yet." : ""}`.trim();
  if (c.exact) {
    if (c.identical) return { line, why, tokens: `Identical: all ${c.length} tokens are the same.`, good: true };
    return {
      line,
      why,
      tokens: `Not identical: the outputs differ from token ${c.difference + 1} on. This is a bug.`,
      good: false,
    };
  }
  const agreement = `Agreement: ${c.equal} of ${c.length} tokens equal plain decoding's, including the first ${same}.`;
  if (c.exactness === "distribution")
    return { line, why, tokens: `${agreement} The method preserves the distribution, not the tokens.`, good: true };
  const relaxed = c.speculative.stats.relaxed ?? 0;
  return { line, why, tokens: `${agreement} The lossy method relaxed ${relaxed}.`, good: true };
}
