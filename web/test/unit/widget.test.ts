import assert from "node:assert/strict";
import { test } from "node:test";
import type { EngineInfo, EventToken, EventTree, Result } from "../../src/protocol/protocol.ts";
import type { RoundEvent, Stats, TokenKind } from "../../src/protocol/protocol.ts";
import { SETTINGS } from "../../src/protocol/settings.ts";
import { bytes, device, forVisitors, milliseconds, parameters, progress } from "../../src/widget/format.ts";
import { EXAMPLES } from "../../src/widget/examples.ts";
import { endOf, isExample, offerFor, questionsFor } from "../../src/widget/prompts.ts";
import { Rate, runsOn, short, steps, summary as summarise } from "../../src/widget/format.ts";
import { attributeOf, FIELDS, parseFlag, parseNumber, parseShape, problemIn } from "../../src/widget/fields.ts";
import { pieces, TokenStream } from "../../src/widget/stream.ts";
import { Tally } from "../../src/widget/tally.ts";
import { layout, visible } from "../../src/widget/layout.ts";
import { asText, LEAF, summary } from "../../src/widget/tree.ts";
import { noCounts } from "../mock/counts.ts";

const token = (text: string, kind: TokenKind = "accepted", depth = 1): EventToken => ({
  id: text.length,
  text,
  kind,
  depth,
});

function round(
  tokens: EventToken[],
  depths: number[] = [0],
  accepted: number[] = [],
  text = tokens.map((t) => t.text).join(""),
): RoundEvent & { tree: EventTree } {
  const parents = depths.map((d, i) => (d === 0 ? -1 : depths.lastIndexOf(d - 1, i)));
  return {
    round: 1,
    text,
    tokens,
    pruned: 0,
    tree: {
      tokens: depths,
      texts: depths.map(String),
      parents,
      depths,
      scores: depths.map(() => 0),
      accepted,
      relaxed: [],
      entropies: depths.map(() => 0.5),
      draft_entropies: [],
      pruned: { tokens: [], texts: [], parents: [], scores: [], total: 0 },
    },
    ms: { draft: 2, verify: 6, readback: 5, host: 2 },
    counts: noCounts(),
    elapsed_ms: 50,
  };
}

/** The part of the DOM that the stream uses; setting innerHTML fails the test. */
class FakeElement {
  children: FakeElement[] = [];
  attributes: Record<string, string> = {};
  text = "";
  scrollTop = 0;
  scrollHeight = 100;
  clientHeight = 100;
  constructor(readonly tag: string) {}
  setAttribute(name: string, value: string): void {
    this.attributes[name] = value;
  }
  append(...children: (FakeElement | string)[]): void {
    for (const child of children) {
      if (typeof child === "string") this.text += child;
      else this.children.push(child);
    }
  }
  replaceChildren(...children: FakeElement[]): void {
    this.children = [];
    this.append(...children);
  }
  set innerHTML(_: string) {
    assert.fail("innerHTML must not be used");
  }
}

test("model text becomes text nodes, even if it contains markup", () => {
  const fake = globalThis as unknown as { document?: unknown };
  fake.document = { createElement: (tag: string) => new FakeElement(tag) };
  try {
    const box = new FakeElement("div");
    const frames: (() => void)[] = [];
    const stream = new TokenStream(box as unknown as HTMLElement, (callback) => frames.push(callback));
    stream.start("<b>prompt</b>");
    const nasty = '<img src=x onerror="alert(1)">';
    stream.push(round([token(nasty), token("</span><script>", "corrected", 0)]));
    stream.push(round([token(" plain", "plain", 0)]));
    const [lines] = box.children;
    assert.equal(lines!.children.length, 1, "nothing is appended before the frame");
    assert.equal(frames.length, 1, "one frame for two rounds");
    frames[0]!();
    assert.deepEqual(
      lines!.children.map((c) => [c.tag, c.attributes["class"], c.text]),
      [
        ["span", "prompt", "<b>prompt</b>"],
        ["span", "token accepted", nasty],
        ["span", "token corrected", "</span><script>"],
        ["span", "token plain", " plain"],
      ],
    );
    assert.match(lines!.children[1]!.attributes["title"]!, /drafted and accepted at depth 1/);
  } finally {
    delete fake.document;
  }
});

test("pieces add up to the round's text, even if tokens split a character", () => {
  const join = (e: RoundEvent): string =>
    pieces(e)
      .map((p) => p.text)
      .join("");
  const whole = round([token("func"), token(" main")]);
  assert.deepEqual(
    pieces(whole).map((p) => p.text),
    ["func", " main"],
  );
  const split = round([token("a"), token(""), token("\ufffd", "bonus")], [0], [], "aé");
  assert.equal(join(split), "aé");
  assert.deepEqual(
    pieces(split).map((p) => p.token?.kind),
    ["accepted", "bonus"],
  );
  const held = round([token("\ufffd")], [0], [], "");
  assert.deepEqual(pieces(held), []);
  assert.equal(join(round([], [], [], "rest")), "rest");
});

test("the tally shows the engine's counts", () => {
  const tally = new Tally();
  // Root, two of depth 1, two of depth 2; one path of two accepted, and a bonus.
  tally.add(round([token("a"), token("b", "accepted", 2), token("c", "bonus", 0)], [0, 1, 1, 2, 2], [1, 3]));
  const counts = {
    ...noCounts(),
    calls: 2,
    tokens_verified: 9,
    output_tokens: 4,
    drafted: 7,
    accepted: 3,
    relaxed: 1,
    corrected: 1,
    bonus: 1,
    depth_drafted: [2, 2],
    depth_accepted: [1, 1],
  };
  tally.add({ ...round([token("d", "corrected", 0)], [0, 1, 1, 2], []), counts });
  tally.add(round([], [], [])); // closing
  assert.equal(tally.rounds, 2);
  assert.equal(tally.acceptanceLength, 2);
  assert.deepEqual(tally.perDepth, [0.5, 0.5]);
  assert.equal(tally.draftAcceptance, 3 / 7);
  assert.equal(tally.tokensVerified, 9);
  assert.deepEqual(tally.kinds, { plain: 0, accepted: 2, relaxed: 1, corrected: 1, bonus: 1 });
  assert.deepEqual(tally.runningLength, [3, 2]);
  assert.deepEqual(tally.acceptedPerRound, [2, 0]);
  assert.equal(tally.tokensPerSecond, 4 / 0.02, "readback is a part of draft and verify, not added to them");
  tally.finish({ acceptance_length: 9, calls: 5, ttft_ms: 12 } as Stats);
  assert.deepEqual([tally.acceptanceLength, tally.calls, tally.timeToFirstToken], [9, 5, 12]);
});

test("a tally without rounds has no rates", () => {
  const tally = new Tally();
  assert.deepEqual([tally.acceptanceLength, tally.tokensPerSecond, tally.calls, tally.perDepth], [0, 0, 0, []]);
});

test("relaxed tokens are counted separately", () => {
  const tally = new Tally();
  const event = round([token("a"), token("b", "relaxed", 2), token("c", "bonus", 0)], [0, 1, 1, 2, 2], [1, 3]);
  tally.add(event);
  assert.deepEqual([tally.acceptedPerRound, tally.strictPerRound], [[2], [1]]);
});

test("a tree has a column per depth, the accepted path at the top, and pruned nodes below", () => {
  const tree = round([], [0, 1, 1, 2, 2, 3], [2]).tree;
  tree.parents = [-1, 0, 0, 1, 1, 3];
  tree.texts = ["^", "a", "b", "c", "d\n", "e"];
  tree.entropies = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
  tree.draft_entropies = [1, -1, -1, -1, -1, -1];
  tree.pruned = { tokens: [7, 8], texts: ["p", "q"], parents: [2, 6], scores: [-4, -5], total: 20 };
  const { placed, height } = layout(tree, LEAF);
  const at = Object.fromEntries(placed.map((p) => [p.node, [p.column, p.state]]));
  assert.deepEqual(at, {
    0: [0, "root"],
    1: [1, "rejected"],
    2: [1, "accepted"],
    3: [2, "rejected"],
    4: [2, "rejected"],
    5: [3, "rejected"],
    6: [2, "pruned"],
    7: [3, "pruned"],
  });
  const y = (node: number): number => placed.find((p) => p.node === node)!.y;
  assert.deepEqual([y(0), y(2)], [y(0), y(0)], "the accepted path is a line");
  assert.ok(y(1) > y(2) && y(4) > y(3) && y(5) === y(3) && height > y(4));
  for (const [i, a] of placed.entries())
    for (const b of placed.slice(i + 1))
      assert.ok(a.column !== b.column || Math.abs(a.y - b.y) > 8, `nodes ${a.node} and ${b.node} lie on each other`);
  const lines = asText(tree).split("\n");
  assert.equal(lines.length, 8);
  assert.equal(
    lines[0],
    "“^” the last token, whose successors were drafted · entropy of what follows: target 0.10, draft 1.00 nats",
  );
  assert.equal(lines[1], "  “b” accepted · depth 1 · score 0.00 · entropy of what follows: target 0.30 nats");
  assert.equal(lines[2], "    “p” pruned before verification · depth 2 · score -4.00");
  assert.equal(summary(tree), "5 drafted tokens verified in 3 levels: 1 accepted, 4 rejected; 20 pruned before");
  assert.equal(layout({ ...tree, tokens: [], pruned: { ...tree.pruned, parents: [] } }, LEAF).placed.length, 0);
  assert.equal(visible("\n\tx y"), "⏎⇥x␣y");
});

test("the tally keeps a number per round for the charts", () => {
  const tally = new Tally();
  const counted = (tokens_verified: number) => ({ counts: { ...noCounts(), tokens_verified } });
  const event = { ...round([token("a"), token("c", "bonus", 0)]), ...counted(3), pruned: 7 };
  tally.add({ ...event, entropy: 2, bin: 2, phi: 0.5 });
  tally.add({ ...round([token("d", "corrected", 0)]), ...counted(5), draft_entropy: 0.5 });
  assert.deepEqual(
    [tally.nodesPerRound, tally.draftedPerRound],
    [
      [3, 2],
      [10, 2],
    ],
  );
  assert.deepEqual(
    [tally.targetEntropy, tally.draftEntropy],
    [
      [2, null],
      [null, 0.5],
    ],
  );
  assert.deepEqual(
    [tally.bin, tally.phi],
    [
      [2, null],
      [0.5, null],
    ],
  );
  assert.deepEqual(tally.times, { draft: [2, 2], verify: [6, 6], readback: [5, 5], host: [2, 2] });
});

test("prompts fit the model, and an example's text ends by its rule", () => {
  const offered = (name: string, code: boolean, ok: boolean): string[] =>
    offerFor({ target: { name }, code, chat: { ok, problem: "" } } as EngineInfo).examples.map(({ prompt }) => prompt);
  const asked = (name: string, code: boolean): string =>
    questionsFor({ target: { name }, code } as EngineInfo).questions[0]!;
  assert.deepEqual(
    [asked("Go code 7.3M", false), asked("coder", true), asked("assistant", false)],
    ["What does strings.Fields do?", "Reverse a linked list in Python.", "Why is the sky blue?"],
  );
  const builtin = offered("Go code 7.3M", false, true);
  assert.deepEqual(
    builtin,
    EXAMPLES.map(({ prompt }) => prompt),
  );
  assert.deepEqual(endOf(builtin[0]!), { stop: ["\n}\n"], include_stop_str_in_output: true });
  assert.deepEqual(endOf(`${builtin[0]}\t`), {}, "an edited prompt has no rule");
  const own = [offered("coder", true, true), offered("assistant", false, true), offered("base", false, false)];
  assert.match(own[0]![0]!, /^def /);
  assert.match(own[1]![0]!, /\?\nAnswer:$/);
  assert.deepEqual(endOf(own[2]![0]!), {}, "prose has no rule");
  assert.equal(new Set([builtin, ...own].flat().filter(isExample)).size, [builtin, ...own].flat().length);
});

test("settings are read as they are written", () => {
  assert.equal(parseNumber("99"), 99);
  assert.equal(parseNumber(" -1.5 "), -1.5);
  assert.equal(parseNumber(""), undefined, "the method's own");
  assert.equal(parseNumber("abc"), undefined);
  assert.equal(attributeOf({ name: "max_tokens" }), "max-tokens");
  assert.deepEqual(parseShape("[[4],[2,1]]"), [[4], [2, 1]]);
  assert.equal(parseShape(" "), undefined);
  assert.equal(parseShape("[4]"), undefined);
});

test("texts of attributes and links are values of their fields, or say why not", () => {
  for (const [key, text, says] of [
    ["temperature", "0.8", undefined],
    ["temperature", "1e-1", undefined],
    ["temperature", "NaN", /is not a number; want 0 \(greedy\) or 0\.001 to 2/],
    ["temperature", "abc", /not a number/],
    ["temperature", "1e400", /not a number/],
    ["temperature", "99", /is not 0 \(greedy\) or 0\.001 to 2/],
    ["top_p", "0", undefined],
    ["top_p", "-0.1", /is not 0/],
    ["max_tokens", "1.5", /not an integer/],
    ["max_tokens", "-1", /is not/],
    ["seed", "18446744073709551616", /not an integer of at most 2\^53/],
    ["seed", `1${"0".repeat(400)}`, /not a number/],
    ["depth", "five", /not a number/],
    ["schedule", "<b>", /is not one of/],
    ["coupled", "false", undefined],
    ["coupled", "", undefined],
    ["coupled", "maybe", /neither true nor false; want true, 1 or yes, or false, 0 or no/],
    ["coupled", "2", /neither true nor false/],
    ["shape", "[[4],[2,1]]", undefined],
    ["shape", "[".repeat(200_000), /not a tree shape/],
    ["shape", `[[${"1,".repeat(2000)}1]]`, /not a tree shape/],
  ] as const) {
    const problem = problemIn(FIELDS.find((field) => field.name === key)!, text);
    if (says) assert.match(problem!, says, `${key}: ${text.slice(0, 40)}`);
    else assert.equal(problem, undefined, key);
  }
});

test("flags of attributes take the usual words", () => {
  for (const text of ["", "true", "1", "yes", "TRUE", "Yes"]) assert.equal(parseFlag(text), true, text);
  for (const text of ["false", "0", "no", "FALSE", "No"]) assert.equal(parseFlag(text), false, text);
  for (const text of ["maybe", "2", "off", "y", "-0"]) assert.equal(parseFlag(text), undefined, text);
});

test("a summary says why the text ended and what was reused", () => {
  const stats = { total_ms: 120, prompt_tokens: 9, reused: 4 };
  const result = { token_ids: [1, 2], finish: "length", stats } as Result;
  assert.equal(summarise(result), "2 tokens in 120 ms · ended by: the token limit · 4 of 9 prompt tokens reused");
});

test("numbers are formatted for display", () => {
  assert.deepEqual(
    [bytes(900), bytes(477_984), bytes(2_575_072), bytes(3.2e9)],
    ["900 B", "478 kB", "2.58 MB", "3.20 GB"],
  );
  assert.deepEqual([short(0.4567), short(12.34), short(188.4)], ["0.46", "12.3", "188"]);
  assert.deepEqual([milliseconds(54), milliseconds(43_000)], ["54.0 ms", "43.0 s"]);
  assert.deepEqual([parameters(2_361_408), parameters(393_696), parameters(7e9)], ["2.4 M", "394 k", "7.0 B"]);
  const info = {
    backend: "browser",
    adapter: "",
    vendor: "acme",
    architecture: "x1",
    driver: "",
    software: true,
    threads: 0,
    features: [],
    note: "",
  };
  assert.equal(device(info), "WebGPU · acme x1 · software adapter");
  const cpu = { ...info, backend: "cpu", adapter: "SIMD", threads: 2 };
  assert.equal(device(cpu), "CPU · 2 threads · SIMD");
  assert.equal(device({ ...info, backend: "reference", adapter: "Go" }), "CPU, reference kernels · Go");
  assert.equal(runsOn(info), "Running on this machine's GPU, a software one");
  assert.equal(runsOn({ ...info, software: false }), "Running on this machine's GPU");
  assert.equal(runsOn(cpu), "Running on 2 CPU threads");
  assert.equal(
    runsOn({ ...cpu, note: "no GPU found: navigator.gpu: missing" }),
    "No GPU found: running on 2 CPU threads",
  );
  assert.equal(
    runsOn({ ...cpu, threads: 1, note: "only a software GPU found: SwiftShader" }),
    "Only a software GPU found: running on 1 CPU thread",
  );
  const took = (calls: number): string =>
    steps({ token_ids: [1, 2, 3], stats: { calls } as Stats } as unknown as Result);
  assert.equal(took(2), "3 tokens in 2 steps of the large model instead of 3");
  assert.equal(took(3), "3 tokens in 3 steps: no guess was used");
  assert.equal(
    progress({ stage: "target", done: 1e6, total: 2e6 }, 5e6),
    "Loading the target · 1.00 MB of 2.00 MB · 5.00 MB/s · 1 s left",
  );
  assert.equal(progress({ stage: "kernels", done: 3, total: 9 }, 0), "Compiling kernels · 3 of 9");
  const rate = new Rate();
  assert.deepEqual([rate.add("target", 0, 0), rate.add("target", 1000, 500), rate.add("draft", 10, 600)], [0, 2000, 0]);
});

test("an error of a model says to a visitor which file cannot be used and why", () => {
  const says = (code: "bad_model" | "network", message: string): string => forVisitors({ code, message });
  const head = "this is an EAGLE-3 head: give it beside that model";
  assert.equal(says("bad_model", `foretoken: a b.gguf: ${head} (--eagle3)`), `a b.gguf cannot be used: ${head}`);
  assert.equal(says("bad_model", "foretoken: x.gguf: header: wrong magic"), "x.gguf cannot be used: wrong magic");
  assert.equal(
    says("bad_model", "foretoken: x.gguf: content-type: the server sent an HTML page"),
    "x.gguf cannot be used: the server sent an HTML page",
  );
  const pair = "x.gguf and y.gguf do not fit together: token 3 differs";
  assert.equal(says("bad_model", `foretoken: ${pair}`), pair);
  assert.equal(says("network", "foretoken: x.gguf: no answer"), "foretoken: x.gguf: no answer");
});

test("the element observes one attribute for each field", () => {
  assert.deepEqual([...SETTINGS].sort(), ["policy", ...FIELDS.map(attributeOf)].sort());
});
