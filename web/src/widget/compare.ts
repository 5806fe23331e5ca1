/**
 * Plain against speculative decoding: the same prompt and settings, one after
 * the other in the same engine, and how far the tokens are the same.
 */
import type { Engine, Generation } from "../engine.ts";
import { configOf, exactnessOf } from "../methods.ts";
import type { Exactness, GenerateRequest, Result, RoundEvent } from "../protocol.ts";

export interface Comparison {
  plain: Result;
  speculative: Result;
  /** Speculative over plain decoding speed; below 1 speculation is slower. */
  ratio: number;
  identical: boolean;
  /** Index of the first token that differs, -1 when identical. */
  difference: number;
  /** Tokens that are the same at the same place, and tokens of the longer output. */
  equal: number;
  length: number;
  /** What the method promises of the tokens. */
  exactness: Exactness;
  /** The method promises the same tokens: it is exact, or exact in distribution and greedy. */
  exact: boolean;
}

export interface CompareHooks {
  /** Called before each part. */
  onPart?: (part: "warm-up" | "plain" | "speculative", request: GenerateRequest) => void;
  onRound?: (event: RoundEvent) => void;
  /** Receives each running part, to stop it. */
  onRun?: (run: Generation) => void;
}

/** Methods whose first run on an engine is over; drivers finish compiling during it. */
const warmed = new WeakMap<object, Set<string>>();

/** The sampling and the length of a request: what plain decoding takes from it. */
export function plainOf(request: GenerateRequest): GenerateRequest {
  const plain: GenerateRequest = { prompt: request.prompt, policy: "none" };
  for (const key of ["max_tokens", "temperature", "seed", "top_k_sampling", "top_p", "min_p", "stop"] as const) {
    if (request[key] !== undefined) Object.assign(plain, { [key]: request[key] });
  }
  return plain;
}

/** Runs both; undefined when it was stopped on the way. */
export async function compare(engine: Pick<Engine, "generate">, request: GenerateRequest, hooks: CompareHooks = {}): Promise<Comparison | undefined> {
  const run = async (part: "warm-up" | "plain" | "speculative", settings: GenerateRequest): Promise<Result | undefined> => {
    hooks.onPart?.(part, settings);
    // Neither finds anything of what the other one's prefill left.
    const running = engine.generate(settings.prompt, { ...settings, no_reuse: true });
    hooks.onRun?.(running);
    if (part !== "warm-up") for await (const event of running) hooks.onRound?.(event);
    const result = await running.result;
    return result.finish === "aborted" ? undefined : result;
  };
  const done = warmed.get(engine) ?? new Set<string>();
  warmed.set(engine, done);
  const asPlain = plainOf(request);
  // A short unmeasured run each, so that the first does not pay for both.
  for (const settings of [asPlain, request]) {
    const { drafter, adapt, source, verifier, depth, top_k, nodes, shape } = configOf(settings);
    const key = JSON.stringify([drafter, adapt, source, verifier, depth, top_k, nodes, shape]);
    if (done.has(key)) continue;
    if (!(await run("warm-up", { ...settings, max_tokens: Math.min(8, settings.max_tokens ?? 8) }))) return undefined;
    done.add(key);
  }
  const plain = await run("plain", asPlain);
  if (!plain) return undefined;
  const speculative = await run("speculative", request);
  if (!speculative) return undefined;
  const difference = firstDifference(plain.token_ids, speculative.token_ids);
  const exactness = exactnessOf(request);
  return {
    plain,
    speculative,
    ratio: plain.stats.decode_tok_s > 0 ? speculative.stats.decode_tok_s / plain.stats.decode_tok_s : NaN,
    identical: difference < 0,
    difference,
    equal: plain.token_ids.filter((id, i) => id === speculative.token_ids[i]).length,
    length: Math.max(plain.token_ids.length, speculative.token_ids.length),
    exactness,
    exact: exactness === "exact" || (exactness === "distribution" && !request.temperature),
  };
}

/** Where two sequences part, -1 when they are equal. */
export function firstDifference(a: readonly number[], b: readonly number[]): number {
  const n = Math.max(a.length, b.length);
  for (let i = 0; i < n; i++) if (a[i] !== b[i]) return i;
  return -1;
}

/** What the comparison shows, in a sentence about speed and one about the tokens. */
export function verdict(c: Comparison): { speed: string; tokens: string; good: boolean } {
  const times = `${c.ratio.toFixed(2)}×`;
  const speed = !Number.isFinite(c.ratio)
    ? "Too few tokens to tell the speeds apart."
    : c.ratio >= 1.005
      ? `Speculation is ${times} as fast as plain decoding here.`
      : c.ratio > 0.995
        ? `Speculation and plain decoding are equally fast here (${times}).`
        : `Speculation is slower here: ${times} the speed of plain decoding.`;
  if (c.exact) {
    if (c.identical) return { speed, tokens: `Identical: all ${c.length} tokens are the same.`, good: true };
    return { speed, tokens: `Not identical: the outputs differ from token ${c.difference + 1} on. This is a bug.`, good: false };
  }
  const same = c.identical ? c.length : c.difference;
  const agreement = `Agreement: ${c.equal} of ${c.length} tokens are plain decoding's, the first ${same} without a break.`;
  if (c.exactness === "distribution") return { speed, tokens: `${agreement} The method keeps the distribution, not the tokens.`, good: true };
  const relaxed = c.speculative.stats.relaxed ?? 0;
  return { speed, tokens: `${agreement} ${relaxed} relaxed by the method, which is lossy.`, good: true };
}
