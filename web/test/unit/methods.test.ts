import assert from "node:assert/strict";
import { test } from "node:test";
import { bars, gainOf, intervalOf, lostNotes, methodRow, METRICS } from "../../src/benchmark/table.ts";
import { parsePrompts, rowsOf, spread, toCSV } from "../../src/benchmark/table.ts";
import { configOf, DEFAULT_METHOD, exactnessOf, METHODS, problemOf } from "../../src/engine/methods.ts";
import type { BenchReport, BenchRow, Measure } from "../../src/protocol/protocol.ts";
import { FIELDS, has } from "../../src/widget/fields.ts";

test("a request has its method's settings unless it overrides them", () => {
  const mars = METHODS.find((m) => m.name === "mars")!;
  assert.deepEqual(
    [configOf({ policy: "mars" }).depth, configOf({ policy: "mars" }).verifier],
    [mars.config.depth, "mars"],
  );
  assert.deepEqual(
    [
      configOf({ policy: "mars", depth: 2, verifier: "match" }).depth,
      configOf({ policy: "mars", verifier: "match" }).verifier,
    ],
    [2, "match"],
  );
  assert.equal(configOf({}).drafter, METHODS.find((m) => m.name === DEFAULT_METHOD)!.config.drafter);
  assert.deepEqual(configOf({ policy: "static" }).shape, METHODS.find((m) => m.name === "static")!.config.shape);
  assert.deepEqual([configOf({ policy: "chain" }).adapt, configOf({ policy: "chain" }).source], ["fixed", "model"]);
});

test("the verifier determines exactness", () => {
  for (const method of METHODS)
    assert.equal(exactnessOf({ policy: method.name }) === "lossy", method.lossy, method.name);
  assert.equal(exactnessOf({ policy: "eagle2" }), "exact");
  assert.equal(exactnessOf({ policy: "sampled" }), "distribution");
  assert.equal(exactnessOf({ policy: "chain", verifier: "rejection" }), "distribution");
  assert.equal(exactnessOf({ policy: "eagle2", verifier: "mars" }), "lossy");
  assert.equal(exactnessOf({ policy: "mars", verifier: "match" }), "exact");
  assert.equal(
    exactnessOf({ policy: "chain", verifier: "invented" }),
    "lossy",
    "an unknown verifier is not called exact",
  );
});

test("a method has only its own settings", () => {
  const settings = (policy: string, more = {}): string[] =>
    FIELDS.filter((f) => f.group === "method" && has(configOf({ policy, ...more }), f)).map((f) => f.name);
  assert.deepEqual(settings("none"), []);
  assert.deepEqual(settings("chain"), ["depth"]);
  assert.deepEqual(settings("eagle2"), ["depth", "top_k", "nodes"]);
  assert.deepEqual(settings("mars"), ["depth", "top_k", "nodes", "theta", "gap", "mode"]);
  assert.deepEqual(settings("chain", { verifier: "mars" }), ["depth", "theta", "gap", "mode"]);
  assert.deepEqual(settings("adasd"), ["depth", "variant", "carry"]);
  assert.deepEqual(settings("c2t"), ["depth", "top_k", "threshold", "one_pruning"]);
  assert.deepEqual(settings("adaedl"), ["depth", "threshold", "lambda"]);
  assert.deepEqual(settings("assisted"), ["depth", "threshold", "schedule"]);
  assert.deepEqual(settings("acceptance-chain"), ["depth", "threshold", "any", "per_branch"]);
  assert.deepEqual(settings("hetero"), [
    "depth",
    "top_k",
    "nodes",
    "alpha",
    "no_extension",
    "no_pruning",
    "no_adaptation",
  ]);
  assert.deepEqual(settings("sampled"), ["shape"]);
  assert.deepEqual(settings("ngram"), ["depth", "ngram_max", "ngram_min"]);
  assert.deepEqual(settings("ngram-map"), ["depth", "ngram_max"]);
});

test("methods that need an unloaded part are reported", () => {
  const model = { name: "", architecture: "", parameters: 0, quant: "", width: 0, context: 0, vocab: 0 };
  const nothing = { draft: null, eagle3: null, fitted: { hetero: [], c2t: false, acceptance: false } };
  assert.equal(problemOf({ policy: "ngram" }, nothing), undefined);
  assert.match(problemOf({ policy: "chain" }, nothing)!, /draft model/);
  assert.match(problemOf({ policy: "eagle3" }, { ...nothing, draft: model })!, /EAGLE-3 head/);
  assert.equal(problemOf({ policy: "eagle3" }, { ...nothing, eagle3: model }), undefined);
  assert.match(problemOf({ policy: "hetero" }, { ...nothing, draft: model })!, /calibrate hetero/);
  assert.match(problemOf({ policy: "chain", adapt: "c2t" }, { ...nothing, draft: model })!, /train c2t/);
  assert.match(problemOf({ policy: "acceptance" }, { ...nothing, draft: model })!, /train acceptance-head/);
});

test("prompts are parsed line by line", () => {
  assert.deepEqual(parsePrompts('{"prompt": "a", "id": "go-1", "category": "go", "more": 1}\n\n{"prompt": "b"}\r\n'), [
    { prompt: "a", id: "go-1", category: "go" },
    { prompt: "b", id: "line-3" },
  ]);
  assert.deepEqual(parsePrompts(" "), []);
  for (const [text, want] of [
    ["func main", /f: line 1: not JSON/],
    ['{"prompt": "a"}\n{"id": "x"}', /f: line 2: prompt/],
    ['{"prompt": "a", "id": 3}', /f: line 1: id/],
    ["null", /f: line 1: prompt/],
  ] as const)
    assert.throws(() => parsePrompts(text, "f"), want);
});

test("settings become a row of the method list", () => {
  assert.equal(methodRow({ prompt: "p", policy: "eagle2" }), "eagle2");
  assert.equal(
    methodRow({
      prompt: "p",
      policy: "eagle2",
      depth: 4,
      top_k: 4,
      verifier: "mars",
      theta: 0.84,
      temperature: 1,
      max_tokens: 9,
    }),
    "eagle2:verifier=mars,depth=4,top-k=4,theta=0.84",
  );
  assert.equal(
    methodRow({ prompt: "p", policy: "static", shape: [[2], [1, 1]], coupled: false }),
    "static:coupled=false,shape=[[2],[1,1]]",
  );
});

const measured = (mean: number, sd = 0, n = 1): Measure => ({ mean, sd, n });
function row(method: string, speedup: Measure, more: Partial<BenchRow> = {}): BenchRow {
  const none = measured(0, 0, 0);
  const uncounted = { k: 0, n: 0, low: 0, high: 0 };
  return {
    method,
    category: "",
    lossy: false,
    plain: false,
    temperature: 0,
    prompts: 2,
    speedup,
    speed_ratio: none,
    decode_tok_s: measured(80),
    acceptance_length: measured(2.5),
    calls: measured(20),
    tokens: measured(320),
    output_tokens: none,
    drafted: none,
    accepted: none,
    relaxed: none,
    draft_ms: none,
    verify_ms: none,
    readback_ms: none,
    host_ms: none,
    same_prefix: none,
    same_place: none,
    edits: none,
    loss: none,
    exact: { k: 2, n: 2, low: 0.34, high: 1 },
    parses: uncounted,
    type_checks: uncounted,
    ...more,
  };
}

test("bars are relative to the longest, and mark missing measurements", () => {
  const rows = [
    row("plain", measured(1), { plain: true }),
    row("mars", measured(2, 0.1, 3), { lossy: true }),
    row("none yet", measured(0, 0, 0)),
    row("mars", measured(3), { category: "go" }),
  ];
  assert.deepEqual(bars(rowsOf(rows, ""), METRICS[0]!), [
    { method: "plain", lossy: false, plain: true, length: 0.5, text: "1.00×", unclear: false },
    { method: "mars", lossy: true, plain: false, length: 1, text: "2.00× (1.75 to 2.25)", unclear: false },
    { method: "none yet", lossy: false, plain: false, length: 0, text: "not measured", unclear: true },
  ]);
  assert.equal(spread(measured(2, 0.1, 3), (x) => x.toFixed(1)), "2.0 ± 0.1");
  assert.deepEqual(bars([], METRICS[1]!), []);
  assert.equal(spread(measured(3), String), "3");
});

test("the interval of the repetitions decides whether a speedup is a gain, and passes whether it is noise", () => {
  const plain = row("plain", measured(1), { plain: true, verify_ms: measured(10.2) });
  const gain = (speedup: Measure, more: Partial<BenchRow> = {}): string => {
    const { kind, text } = gainOf(row("auto", speedup, more), plain);
    return `${kind}: ${text}`;
  };
  assert.equal(gain(measured(1.4, 0.02, 3)), "gain: 1.40× (1.35 to 1.45)");
  assert.equal(gain(measured(1.4, 0.2, 3)), "unclear: not clear (0.90 to 1.90)");
  assert.equal(gain(measured(0.8, 0.02, 3)), "loss: 0.80× (0.75 to 0.85)");
  assert.equal(gain(measured(1.4)), "unclear: not clear: one repetition");
  const noise = { acceptance_length: measured(1.1), verify_ms: measured(6.3) };
  assert.equal(gain(measured(1.4, 0.02, 3), noise), "unclear: not clear: 6.3 ms a pass, plain 10.2");
  assert.equal(intervalOf(measured(1)), undefined);
  const [low, high] = intervalOf(measured(1, 1, 4))!;
  assert.ok(Math.abs(low + 0.59) < 0.01 && Math.abs(high - 2.59) < 0.01, "t of 3 degrees of freedom is 3.18");
});

test("notes say how many measurements a row excludes", () => {
  const rows = [
    row("plain", measured(1)),
    row("mars", measured(2), { lost: 2 }),
    row("mars", measured(2), { lost: 1, category: "go" }),
  ];
  assert.deepEqual(lostNotes(rows), [
    {
      method: "mars",
      text: "the GPU was lost during 2 of its measurements; its times and speeds exclude them",
    },
  ]);
});

test("the CSV has the command line's columns", () => {
  const report: BenchReport = {
    device: 'browser, "x"',
    target: "t",
    draft: "d",
    stopped: false,
    rows: [row("mars:theta=0.84,depth=2", measured(2, 0.1, 3), { lossy: true }), row("plain", measured(1))],
  };
  const lines = toCSV(report).split("\n");
  assert.match(
    lines[0]!,
    new RegExp(
      "^device,target,draft,method,lossy,temperature,category,prompts,repetitions,speedup,speedup_sd,.*," +
        "loss,loss_sd,exact,exact_of,exact_low,exact_high,parses,parses_of,.*,type_checks_high$",
    ),
  );
  assert.match(lines[1]!, /^"browser, ""x""",t,d,"mars:theta=0.84,depth=2",true,0,all,2,1,2,0.1,,,80,,2.5,/);
  assert.match(lines[1]!, /,2,2,0\.34,1,,,,,,,,$/);
  assert.match(lines[2]!, /,plain,false,0,all,2,1,1,,/);
  assert.equal(lines[1]!.split(",").length - 2, lines[0]!.split(",").length, "two commas are quoted");
});
