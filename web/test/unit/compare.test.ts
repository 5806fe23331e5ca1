/** Comparisons with scripted engines and clocks: their statistics, when they end, and their verdicts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CostReport, GenerateRequest, Result, RoundEvent } from "../../src/protocol/protocol.ts";
import { compare, type Comparison, firstDifference, isNoise, plainOf, verdictOf } from "../../src/widget/compare.ts";
import { estimate, spread } from "../../src/widget/interval.ts";

/** Deterministic draws from 0 to 1. */
function draws(seed: number): () => number {
  let state = seed;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

/** A normal variate of the mean 0 and the deviation 1. */
const normal = (draw: () => number): number => {
  const [u, v] = [1 - draw(), draw()];
  return Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v);
};

interface Script {
  ids?: Record<string, number[]>;
  /** Tokens a second of a run. */
  speed: (policy: string, run: number) => number;
  tau?: number;
  costs?: () => Promise<CostReport>;
}

/** An engine whose clock moves by what its runs take, and the log of its requests. */
function scripted({ ids = {}, speed, tau = 2.5, costs = () => Promise.reject(new Error("none")) }: Script) {
  const log: string[] = [];
  let time = 0;
  return {
    log,
    now: () => time,
    costs,
    generate(_prompt: string, request: Partial<GenerateRequest> = {}) {
      const policy = request.policy!;
      assert.deepEqual([request.no_reuse, request.trace], [true, false]);
      const token_ids = ids[policy] ?? [1, 2, 3];
      const decode_tok_s = speed(policy, log.length);
      time += 64_000 / decode_tok_s;
      log.push(policy);
      const stats = { decode_tok_s, acceptance_length: policy === "none" ? 1 : tau, verify_ms: 1 };
      const result = Promise.resolve({ token_ids, finish: "length", stats } as unknown as Result);
      const trace = Promise.resolve(Uint8Array.of(log.length));
      return { result, stop() {}, trace: () => trace, async *[Symbol.asyncIterator]() {} };
    },
  };
}

const request: GenerateRequest = { prompt: "p", max_tokens: 64, temperature: 0, policy: "eagle2", verifier: "match" };

/** Compares on a scripted engine, by its clock. */
async function run(script: Script, hooks: { turns?: number } = {}, of = request) {
  const engine = scripted(script);
  const outcome = (await compare(engine, of, { ...hooks, now: engine.now }))!;
  return { ...outcome, log: engine.log, took: engine.now() };
}

test("the interval of a ratio is that of the signed-rank test", () => {
  // Critical values of Wilcoxon's statistic, two-sided 5 %: 0 of 6 pairs, 8 of 10, 52 of 20.
  for (const [pairs, skipped] of [
    [6, 0],
    [10, 8],
    [20, 52],
  ] as const) {
    const ratios = Array.from({ length: pairs }, (_, i) => Math.exp(2 ** i / 2 ** pairs));
    const logs = ratios.map(Math.log);
    const means = logs.flatMap((a, i) => logs.slice(i).map((b) => (a + b) / 2)).sort((a, b) => a - b);
    const { low, high, confidence } = estimate(ratios);
    assert.ok(Math.abs(Math.log(low) - means[skipped]!) < 1e-12, `${pairs} pairs`);
    assert.ok(Math.abs(Math.log(high) - means.at(-1 - skipped)!) < 1e-12, `${pairs} pairs`);
    assert.ok(confidence >= 0.95 && confidence < 0.97, `${pairs} pairs: ${confidence}`);
  }
  assert.deepEqual(estimate([2]), { ratio: 2, low: 2, high: 2, confidence: 0 });
  const three = estimate([1, 2, 4]);
  assert.deepEqual([three.ratio.toFixed(6), three.low, three.high.toFixed(6)], ["2.000000", 1, "4.000000"]);
  assert.equal(three.confidence, 0.75);
  assert.ok(Number.isNaN(estimate([NaN]).ratio));
  assert.equal(spread([1, 2, 3, 4, 5]), 2);
});

test("the interval holds the true ratio as often as it says", () => {
  const draw = draws(7);
  for (const pairs of [6, 12, 40]) {
    let held = 0;
    for (let i = 0; i < 400; i++) {
      const { low, high } = estimate(Array.from({ length: pairs }, () => 1.1 * Math.exp(0.1 * normal(draw))));
      if (low <= 1.1 && 1.1 <= high) held++;
    }
    assert.ok(held >= 368, `${held} of 400 intervals of ${pairs} pairs`);
  }
});

test("compare decodes each way once, then both in turn, and each comes first as often", async () => {
  const { log, turns, ratio, interval, identical } = await run({ speed: (way) => (way === "none" ? 4000 : 5000) });
  const [first, second] = [
    ["none", "eagle2"],
    ["eagle2", "none"],
  ];
  assert.deepEqual(log, [first, first, second, first, second, first, second].flat());
  assert.deepEqual([turns, ratio.toFixed(3), identical], [6, "1.250", true]);
  assert.deepEqual(
    interval.map((x) => x.toFixed(3)),
    ["1.250", "1.250"],
  );
  assert.equal((await run({ speed: () => 4000 }, { turns: 2 })).log.length, 6);
});

test("a noisy engine ends when its interval is narrow, a slow one after fifteen seconds", async () => {
  const noisy = draws(3);
  const speed = (way: string): number => (way === "none" ? 1000 : 1120) * Math.exp(0.05 * normal(noisy));
  const clear = await run({ speed });
  assert.ok(clear.turns > 6 && clear.turns < 60, `${clear.turns} turns`);
  const [low, high] = clear.interval;
  assert.ok(high / low <= 1.08 && low < 1.12 && high > 1.12, `${low} to ${high}`);
  assert.match(clear.verdict.line, /^1\.1\d times as fast, 1\.0\d to 1\.1\d, the same 3 tokens$/);

  const slow = await run({ speed: (way) => (way === "none" ? 12 : 24) });
  assert.deepEqual([slow.turns, slow.log.length], [2, 6]);
  assert.equal(slow.verdict.line, "2.00 times as fast, 2.00 to 2.00 in 2 turns, the same 3 tokens");
  const slower = await run({ speed: () => 4 });
  assert.equal(slower.verdict.line, "1.00 times the speed in one turn, which is too few to tell, the same 3 tokens");
  // Far from 1 a wider interval is clear.
  const far = draws(5);
  const large = await run({ speed: (way) => (way === "none" ? 1000 : 3000) * Math.exp(0.12 * normal(far)), tau: 4 });
  assert.ok(large.turns < 30 && large.interval[1] / large.interval[0] > 1.08, `${large.turns} turns`);
});

test("a slow machine compares the tokens that it writes in a few seconds, and sixteen at least", async () => {
  const compared = async (speed: number): Promise<[number, number, number]> => {
    let time = 0;
    const asked: (number | undefined)[] = [];
    const engine = {
      costs: () => Promise.reject(new Error("none")),
      generate(_prompt: string, { policy, max_tokens }: Partial<GenerateRequest> = {}) {
        asked.push(max_tokens);
        const ids: number[] = [];
        let ended: (finish: string) => void;
        const finish = new Promise<string>((resolve) => (ended = resolve));
        const stats = { decode_tok_s: speed, acceptance_length: 1, verify_ms: 1000 / speed };
        const result = finish.then((finish) => ({ token_ids: ids, finish, stats }) as unknown as Result);
        async function* rounds() {
          try {
            while (ids.length < max_tokens!) {
              time += 1000 / (policy === "none" ? speed : 2 * speed);
              ids.push(ids.length);
              yield { tokens: [], counts: { output_tokens: ids.length } } as unknown as RoundEvent;
            }
            ended("length");
          } finally {
            ended("aborted"); // the loop was left
          }
        }
        return { result, stop() {}, trace: () => Promise.resolve(new Uint8Array()), [Symbol.asyncIterator]: rounds };
      },
    };
    const { length, turns } = (await compare(engine, request, { now: () => time }))!;
    assert.deepEqual(asked, [64, ...Array.from({ length: 1 + 2 * turns }, () => length)]);
    return [length, turns, Math.round(time / 1000)];
  };
  assert.deepEqual(await compared(1000), [64, 6, 1]);
  const [length, turns, seconds] = await compared(8);
  const found = `${length} tokens, ${turns} turns, ${seconds} s`;
  assert.ok(length > 28 && length < 34 && turns === 3 && seconds < 27, found);
  assert.deepEqual((await compared(2)).slice(0, 2), [16, 2]);
});

test("other work is no result, unless the difference is clear all the same", async () => {
  const disturbed = (gain: number, seed: number) => {
    const draw = draws(seed);
    return (way: string): number => (way === "none" ? 300 : 300 * gain) / (draw() < 0.5 ? 1 : 1 + 2 * draw());
  };
  const costs = (): Promise<CostReport> => Promise.resolve({ verify: [{ n: 1, ms: 1, ratio: 1 }] } as CostReport);
  const none = await run({ speed: disturbed(1.05, 1), costs });
  assert.ok(none.took >= 15_000 && none.plain_spread > 1.15, `${none.took} ms, spread ${none.plain_spread}`);
  assert.deepEqual([none.disturbed, none.costs], [true, undefined]);
  assert.match(
    none.verdict.line,
    /^No clear result: other work disturbed the measurement, 0\.\d\d to 1\.\d\d, the same 3 tokens$/,
  );
  // An interval nearer to 1 than half its width tells no direction either.
  const slower = await run({ speed: disturbed(0.6, 1) });
  assert.ok(slower.disturbed && slower.interval[1] < 1, `${slower.interval}`);
  assert.match(slower.verdict.line, /^No clear result: other work disturbed the measurement, 0\.\d\d to 0\.\d\d/);
  const clear = await run({ speed: disturbed(2.2, 1) });
  assert.match(clear.verdict.line, /^2\.\d\d times as fast, 1\.\d\d to 2\.\d\d/);
  // Rare long pauses hardly move the interval.
  const draw = draws(9);
  const pause = (): number => (draw() < 0.1 ? 0.2 : 1 + 0.02 * draw());
  const paused = await run({ speed: (way) => (way === "none" ? 1000 : 1150) * pause() });
  assert.ok(paused.ratio > 1.13 && paused.ratio < 1.17, `${paused.ratio}`);
  assert.match(paused.verdict.line, /^1\.1\d times as fast/);
});

test("a verdict names the interval, and says why speculation gains nothing", async () => {
  const cost = [1, 2, 4, 8, 16].map((n) => ({ n, ms: n, ratio: 0.9 * n + 0.1 }));
  const asked: unknown[] = [];
  const costs = (...given: unknown[]): Promise<CostReport> => {
    asked.push(given[0]);
    return Promise.resolve({ verify: cost } as CostReport);
  };
  const slower = await run({ speed: (way) => (way === "none" ? 4000 : 3000), tau: 1.5, costs });
  assert.deepEqual(asked, [{ rows: [1, 2, 4, 8, 16], repeat: 3, tokens: 1 }]);
  assert.equal(slower.costs, cost);
  assert.equal(slower.verdict.line, "Slower here: 0.75 times the speed, 0.75 to 0.75, the same 3 tokens");
  assert.match(slower.verdict.why, /^A step wrote 1\.5 tokens and took 2\.0 times as long\. /);
  assert.match(slower.verdict.why, / A step that checks 16 tokens takes 14\.5 times as long .* here; on NVIDIA .*\.$/);
  const same = await run({ speed: () => 4000 });
  assert.equal(same.verdict.line, "About the same here: 1.00 times the speed, 1.00 to 1.00, the same 3 tokens");
  assert.equal(same.verdict.why, "");
  const short = await run({ speed: () => NaN });
  assert.equal(short.verdict.line, "Too few tokens to compare the speeds, the same 3 tokens");
  const { verdict: _, ...guessed } = { ...slower, guessed: true };
  assert.match(verdictOf(guessed).why, / Steps were not timed yet\.$/);
});

test("a ratio above the tokens a pass is the machine's noise and no gain", async () => {
  const at = async (tau: number): Promise<string> =>
    (await run({ speed: (way) => (way === "none" ? 1000 : 1400), tau })).verdict.line;
  assert.equal(await at(1.3), "1.40 times as fast, 1.40 to 1.40, the same 3 tokens");
  assert.match(await at(1.1), /^No clear result: other work slowed plain decoding, 1\.40 to 1\.40, the same 3 tokens/);
  assert.deepEqual([isNoise(0.9, 0.5), isNoise(1.05, 1)], [false, false]);
});

test("a comparison shows the late turn nearest to the ratio, or the first whose tokens differ", async () => {
  const speeds = [1, 1, 1, 2, 2, 1, 1, 3]; // the untimed ones, then plain, fast; fast, plain; plain, fast
  const { ratio, traces, turns } = await run({ speed: (_, i) => 1000 * speeds[i]! }, { turns: 3 });
  assert.deepEqual([ratio.toFixed(2), turns, traces.plain[0], traces.speculative[0]], ["2.21", 3, 3, 4]);

  const ids = { none: [1, 2, 3], eagle2: [1, 9, 3] };
  const differs = await run({ ids, speed: (way) => (way === "none" ? 1000 : 2500) });
  assert.deepEqual([differs.identical, differs.difference, differs.traces.plain[0]], [false, 1, 3]);
});

test("a difference of tokens is a bug only if the method guarantees equal ones", async () => {
  const ids = { none: [1, 2, 3], eagle2: [1, 9, 3], mars: [1, 9, 3] };
  const speed = (way: string): number => (way === "none" ? 1000 : 2500);
  const of = (more: Partial<GenerateRequest>): Promise<Comparison> => run({ ids, speed }, {}, { ...request, ...more });
  const { verdict } = await of({});
  assert.equal(verdict.line, "2.50 times as fast, 2.50 to 2.50, but the text differs from token 2 on");
  assert.match(verdict.tokens, /from token 2 on. This is a bug/);
  assert.equal(verdict.good, false);
  const greedy = await of({ verifier: "rejection" });
  assert.match(greedy.verdict.tokens, /This is a bug/, "greedy, rejection sampling gives the same tokens");
  const sampled = await of({ verifier: "rejection", temperature: 0.8 });
  assert.match(
    sampled.verdict.tokens,
    /^Agreement: 2 of 3 tokens .* including the first 1\. The method preserves the distribution/,
  );
  const lossy = await run({ ids, speed }, {}, { prompt: "p", policy: "mars" });
  assert.deepEqual([lossy.exactness, lossy.exact, lossy.equal, lossy.length], ["lossy", false, 2, 3]);
  assert.match(lossy.verdict.tokens, /^Agreement: 2 of 3 .* The lossy method relaxed \d+\.$/);
  assert.doesNotMatch(verdictOf({ ...lossy, identical: true, difference: -1, equal: 3 }).tokens, /Identical/);
  assert.equal(firstDifference([1, 2], [1, 2, 3]), 2);
  assert.equal(firstDifference([], []), -1);
});

test("a comparison that is stopped ends with the run under way", async () => {
  const engine = scripted({ speed: () => 4000 });
  const stop = new AbortController();
  const generate: typeof engine.generate = (prompt, request) => {
    const run = engine.generate(prompt, request);
    if (engine.log.length < 4) return run;
    const aborted = new Promise<Result>((resolve) => {
      run.stop = () => resolve({ finish: "aborted" } as Result);
    });
    queueMicrotask(() => stop.abort());
    return { ...run, stop: run.stop, result: aborted };
  };
  assert.equal(await compare({ ...engine, generate }, request, { now: engine.now }, stop.signal), undefined);
  assert.equal(engine.log.length, 4);
  assert.equal(await compare(engine, request, {}, stop.signal), undefined);
  assert.equal(engine.log.length, 4, "stopped before, it runs nothing");
});

test("plain decoding has the sampling of the request, without its method", () => {
  assert.deepEqual(plainOf({ prompt: "p", policy: "mars", theta: 0.9, temperature: 1, seed: 3, depth: 9 }), {
    prompt: "p",
    policy: "none",
    temperature: 1,
    seed: 3,
  });
});
