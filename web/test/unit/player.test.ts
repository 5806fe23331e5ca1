/** What the player of traces shows, in which order, and in which words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { caption, Order, sceneOf, sentence, stepsOf } from "../../src/player/order.ts";
import type { EventTree, TokenKind } from "../../src/protocol/generation.ts";
import type { Trace, TracedRound } from "../../src/protocol/trace.ts";

const NONE = { tokens: [], texts: [], parents: [], scores: [], total: 0 };

/** A tree of texts with parents; probabilities are those after the parent. */
function treeOf(nodes: readonly [text: string, parent: number, probability: number][], accepted: number[]): EventTree {
  const scores: number[] = [];
  const depths: number[] = [];
  for (const [i, [, parent, probability]] of nodes.entries()) {
    scores.push(i === 0 ? 0 : scores[parent]! + Math.log(probability));
    depths.push(i === 0 ? 0 : depths[parent]! + 1);
  }
  const column = <T>(of: (node: (typeof nodes)[number]) => T): T[] => nodes.map(of);
  const parents = column(([, parent]) => parent);
  const texts = column(([text]) => text);
  const tokens = nodes.map((_, i) => i);
  const rest = { relaxed: [], entropies: [], draft_entropies: [], pruned: NONE };
  return { tokens, texts, parents, depths, scores, accepted, ...rest };
}

function roundOf(round: number, tokens: [text: string, kind: TokenKind][], tree?: EventTree): TracedRound {
  return {
    round,
    text: tokens.map(([text]) => text).join(""),
    tokens: tokens.map(([text, kind], id) => ({ id, text, kind, depth: 0 })),
    ...(tree ? { tree } : {}),
    ms: { draft: 1, verify: 4, readback: 2, host: 0.5 },
    elapsed_ms: 10 * round,
  };
}

const TREE = treeOf(
  [
    ["{", -1, 1],
    ["\n", 0, 0.9],
    ["}", 0, 0.1],
    ["\t", 1, 0.5],
    [" x", 1, 0.25],
    ["if", 3, 0.2],
    ["for", 3, 0.6],
  ],
  [1, 3],
);
const TRACE: Trace = {
  prompt: "func f() {",
  run: 3,
  rounds: [
    roundOf(1, [["\n", "accepted"], ["\t", "accepted"], ["return", "corrected"]], TREE),
    roundOf(2, [[" nil", "plain"]], treeOf([["return", -1, 1]], [])),
    roundOf(3, [["\n", "accepted"], ["}", "bonus"]]),
  ],
  rest: "",
  finish: "stop",
};

test("a scene has the kept path on its first line, and the target's own token after it", () => {
  const scene = sceneOf(TRACE.rounds[0]!, "{", 8);
  assert.deepEqual([scene.guesses, scene.rows, scene.kept, scene.own, scene.hidden], [6, 7, 2, 1, 0]);
  const first = scene.nodes.filter(({ line }) => line === 0.5).sort((a, b) => a.column - b.column);
  assert.deepEqual(
    first.map(({ text, kind }) => [text, kind]),
    [["{", "root"], ["\n", "kept"], ["\t", "kept"], ["return", "own"]],
  );
  for (const { text, parent, column } of scene.nodes)
    if (parent >= 0) assert.equal(scene.nodes[parent]!.column, column - 1, text);
  assert.equal(new Set(scene.nodes.map(({ line, column }) => `${line} ${column}`)).size, scene.nodes.length);
  const chances = Object.fromEntries(scene.nodes.map(({ text, probability }) => [text, probability?.toFixed(2)]));
  assert.deepEqual([chances["\t"], chances[" x"], chances["return"]], ["0.50", "0.25", undefined]);
  assert.deepEqual([scene.columns, scene.lines], [4, 5]);
});

test("a scene of few lines drops the least likely leaves, and never the kept path", () => {
  const scene = sceneOf(TRACE.rounds[0]!, "{", 3);
  assert.ok(scene.lines <= 3, `${scene.lines} lines`);
  assert.deepEqual(
    scene.nodes.map(({ text }) => text).sort(),
    ["\n", "\t", " x", "for", "return", "{"].sort(),
  );
  assert.equal(scene.hidden, 2);
  assert.equal(scene.guesses, 6, "the words still count all guesses");
});

test("a round grows column by column, is checked, kept and written", () => {
  const steps = stepsOf(sceneOf(TRACE.rounds[0]!, "{", 8));
  assert.deepEqual(
    steps.map(({ phase, column }) => [phase, column]),
    [["guess", 0], ["guess", 1], ["guess", 2], ["guess", 3], ["check", 3], ["keep", 3], ["write", 3]],
  );
  assert.ok(steps.every(({ ms }) => ms > 0));
  // Without guesses nothing grows.
  const plain = stepsOf(sceneOf(TRACE.rounds[1]!, "return", 8));
  assert.deepEqual(
    plain.map(({ phase }) => phase),
    ["check", "keep", "write"],
  );
});

test("steps go forwards and backwards through all rounds, in the same places", () => {
  const order = new Order(TRACE, 8);
  const there = [{ round: 0, step: 0 }];
  for (let next = order.next(there[0]!); next; next = order.next(next)) there.push(next);
  assert.equal(there.filter((place) => order.step(place).phase === "write").length, 3);
  const back = [there.at(-1)!];
  for (let previous = order.previous(back[0]!); previous; previous = order.previous(previous)) back.push(previous);
  assert.deepEqual(back.reverse(), there);
  assert.deepEqual(order.end(2), there.at(-1));
});

test("a round without a tree is drawn from its tokens", () => {
  const scene = new Order(TRACE, 8).scene(2);
  assert.deepEqual(
    scene.nodes.map(({ text, kind }) => [text, kind]),
    [[" nil", "root"], ["\n", "kept"], ["}", "own"]],
  );
  assert.ok(scene.nodes.every(({ probability }) => probability === undefined), "nothing is said that the trace lacks");
});

test("figures count passes, tokens, rows and time", () => {
  assert.deepEqual(new Order(TRACE, 8).figures(1), { tokens: 4, passes: 2, rows: 7, ms: 20 });
  assert.deepEqual(new Order(TRACE, 8).figures(-1), { tokens: 0, passes: 0, rows: 0, ms: 0 });
});

test("each step has words, and a round a sentence", () => {
  const order = new Order(TRACE, 8);
  const [first, second] = [order.scene(0), order.scene(1)];
  assert.equal(caption(first, "check", 5.5), "the large model checks 6 guesses in one pass");
  assert.equal(caption(first, "keep", 5.5), "2 kept, 1 of its own");
  assert.equal(caption(first, "write", 5.5), "3 tokens for one pass of 7 rows, 5.5 ms");
  assert.equal(caption(second, "check", 5.5), "no guess: the large model writes one token");
  assert.equal(caption(second, "write", 5.5), "1 token for one pass of 1 row, 5.5 ms");
  assert.equal(
    sentence(order, 0),
    "Round 1 of 3. The small model guessed 6 tokens, the large model kept 2 and wrote one: return. " +
      "3 tokens in one pass, 5.5 ms.",
  );
  assert.equal(sentence(order, 1), "Round 2 of 3. The large model wrote one token: nil. 1 token in one pass, 5.5 ms.");
});

test("a deep and wide tree is laid out in bounded time", () => {
  const wide = treeOf(
    Array.from({ length: 4096 }, (_, i) => [`t${i}`, i === 0 ? -1 : Math.floor((i - 1) / 2), 0.5]),
    [1, 3, 7],
  );
  const begun = performance.now();
  const scene = sceneOf(roundOf(1, [["a", "accepted"], ["b", "accepted"], ["c", "accepted"]], wide), "", 8);
  assert.ok(scene.lines <= 8 && performance.now() - begun < 2000);
  assert.equal(scene.kept, 3);
});
