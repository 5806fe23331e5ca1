/**
 * Plain against speculative decoding: the same prompt and settings, one after
 * the other in the same engine, and a check that the tokens are the same.
 */
import type { Engine, Generation } from "../engine.ts";
import type { GenerateRequest, Policy, Result, RoundEvent } from "../protocol.ts";

export interface Comparison {
  plain: Result;
  speculative: Result;
  /** Speculative over plain decoding speed; below 1 speculation is slower. */
  ratio: number;
  identical: boolean;
  /** Index of the first token that differs, -1 when identical. */
  difference: number;
  /** Rejection sampling keeps the distribution at temperature > 0, not the tokens. */
  exact: boolean;
}

export interface CompareHooks {
  /** Called before each part. */
  onPart?: (part: "warm-up" | "plain" | "speculative", request: GenerateRequest) => void;
  onRound?: (event: RoundEvent) => void;
  /** Receives each running part, to stop it. */
  onRun?: (run: Generation) => void;
}

/** Policies whose first run on an engine is over; drivers finish compiling during it. */
const warmed = new WeakMap<object, Set<Policy>>();

/** Runs both; undefined when it was stopped on the way. */
export async function compare(engine: Pick<Engine, "generate">, request: GenerateRequest, hooks: CompareHooks = {}): Promise<Comparison | undefined> {
  const run = async (part: "warm-up" | "plain" | "speculative", settings: GenerateRequest): Promise<Result | undefined> => {
    hooks.onPart?.(part, settings);
    const running = engine.generate(settings);
    hooks.onRun?.(running);
    if (part !== "warm-up") for await (const event of running) hooks.onRound?.(event);
    const result = await running.result;
    return result.finish === "aborted" ? undefined : result;
  };
  const done = warmed.get(engine) ?? new Set<Policy>();
  warmed.set(engine, done);
  // A short unmeasured run each, so that the first does not pay for both.
  for (const policy of ["none", request.policy] as const) {
    if (done.has(policy)) continue;
    if (!(await run("warm-up", { ...request, policy, max_tokens: Math.min(8, request.max_tokens) }))) return undefined;
    done.add(policy);
  }
  const plain = await run("plain", { ...request, policy: "none" });
  if (!plain) return undefined;
  const speculative = await run("speculative", request);
  if (!speculative) return undefined;
  const difference = firstDifference(plain.token_ids, speculative.token_ids);
  return {
    plain,
    speculative,
    ratio: plain.stats.decode_tok_s > 0 ? speculative.stats.decode_tok_s / plain.stats.decode_tok_s : NaN,
    identical: difference < 0,
    difference,
    exact: request.verifier === "match" || request.temperature === 0,
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
  const n = c.plain.token_ids.length;
  if (c.identical) return { speed, tokens: `Identical: all ${n} tokens are the same.`, good: true };
  if (!c.exact) return { speed, tokens: "Rejection sampling keeps the distribution, not the tokens, so they may differ.", good: true };
  return { speed, tokens: `Not identical: the outputs differ from token ${c.difference + 1} on. This is a bug.`, good: false };
}
