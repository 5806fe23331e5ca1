/** What the playground counts and weighs, against brute force, Go's own trees and Go's sizes of passes. */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import { test } from "node:test";
import recorded from "../../recorded.trace";
import {
  best,
  cut,
  draftTime,
  keptOf,
  passTime,
  roundTime,
  type Shape,
  SIZES,
  speedup,
  within,
  yieldOf,
} from "../../src/playground/model.ts";
import { DEVICES, MOST, RUNS } from "../../src/playground/recorded.ts";
import { STORIES } from "../../src/playground/stories.ts";
import type { EventTree } from "../../src/protocol/generation.ts";
import { readTrace } from "../../src/protocol/trace.ts";

const greedy = RUNS[0]!.trees;

/** The paths of a tree, as words of token ids. */
const pathsOf = ({ tokens, parents }: EventTree): string[] => {
  const paths: string[] = [];
  tokens.forEach((token, node) => paths.push(node === 0 ? "" : `${paths[parents[node]!]} ${token}`));
  return paths.sort();
};

/** All shapes of a sample of depths, candidates and nodes. */
const shapes = [1, 2, 3, 5, 8].flatMap((depth) =>
  [1, 2, 3, 8].flatMap((topK) => [2, 5, 12, 30, 48].map((nodes): Shape => ({ depth, topK, nodes }))),
);

test("a smaller tree of a recorded one is the tree that Go drafts with these settings", () => {
  const { prompt, rounds } = readTrace(recorded);
  assert.equal(prompt, RUNS[0]!.prompt);
  const first = rounds[0]!.tree!;
  // cmd/examples asks for depth 4, which counts the levels after the first.
  const shape = { depth: 5, topK: 4, nodes: 12 };
  assert.deepEqual(pathsOf(cut(greedy[0]!, within(greedy[0]!, shape))), pathsOf(first));
});

test("the yield of a draft counts the tokens that the target keeps, path by path", () => {
  for (const { trees } of RUNS) {
    for (const shape of shapes) {
      const { tokens, rows, reach, each } = yieldOf(trees, shape);
      let [kept, nodes] = [0, 0];
      const deep = new Array<number>(shape.depth).fill(0);
      for (const tree of trees) {
        const small = cut(tree, within(tree, shape));
        assert.ok(small.tokens.length <= shape.nodes && Math.max(...small.depths) <= shape.depth);
        const siblings = small.parents.filter((parent, node) => small.parents.indexOf(parent) === node);
        for (const parent of siblings)
          assert.ok(parent < 0 || small.parents.filter((one) => one === parent).length <= shape.topK);
        // The longest path whose tokens are those that the target wrote.
        const written = tree.accepted.map((node) => tree.tokens[node]!);
        const agreeing = pathsOf(small).filter((path) => ` ${written.join(" ")} `.startsWith(`${path} `));
        const longest = Math.max(...agreeing.map((path) => path.split(" ").length - 1));
        assert.equal(keptOf(tree, within(tree, shape)), longest);
        kept += longest;
        nodes += small.tokens.length;
        for (let depth = 1; depth <= longest; depth++) deep[depth - 1]!++;
      }
      assert.ok(Math.abs(tokens - 1 - kept / trees.length) < 1e-9);
      assert.ok(Math.abs(rows - nodes / trees.length) < 1e-9);
      assert.deepEqual(reach, deep.map((n) => n / trees.length));
      assert.equal(each.length, trees.length);
      assert.ok(Math.abs(reach.reduce((sum, x) => sum + x, 1) - tokens) < 1e-9);
    }
  }
});

test("the largest shape keeps the recorded trees and what they brought", () => {
  for (const { trees } of RUNS) {
    for (const tree of trees) assert.equal(within(tree, MOST).length, tree.tokens.length);
    const kept = trees.reduce((sum, { accepted }) => sum + accepted.length, 0);
    assert.ok(Math.abs(yieldOf(trees, MOST).tokens - 1 - kept / trees.length) < 1e-9);
  }
});

test("passes have the sizes that Go's costs have, and take what was measured", async () => {
  const go = await fs.readFile("../spec/goodput/costs.go", "utf8");
  const buckets = /^var buckets = \[\]int\{([^}]+)\}/m.exec(go)!;
  assert.deepEqual(SIZES, buckets[1]!.split(",").map(Number));
  for (const { costs } of DEVICES) {
    for (const { n, ms } of costs.verify) assert.equal(passTime(costs, n), ms);
    for (const { n, ms } of costs.chain) assert.ok(Math.abs(draftTime(costs, n, 1) - ms) < 1e-9);
    assert.equal(passTime(costs, 5), passTime(costs, 6));
    assert.equal(draftTime(costs, 0, 4), 0);
  }
  // Ten rows run as twelve, on the line from eight to sixteen; further levels of two beams take twice as long here.
  const costs = {
    verify: [1, 2, 8, 16].map((n) => ({ n, ms: 10 * n, ratio: n })),
    chain: [
      { n: 1, ms: 4, ratio: 0.4 },
      { n: 2, ms: 5, ratio: 0.5 },
    ],
  };
  assert.deepEqual([passTime(costs, 10), passTime(costs, 32)], [120, 320]);
  assert.deepEqual([draftTime(costs, 4, 1), draftTime(costs, 4, 2)], [7, 10]);
});

test("the speed is that of all rounds together", () => {
  for (const { costs } of DEVICES) {
    for (const shape of shapes) {
      const brought = yieldOf(greedy, shape);
      let [tokens, ms] = [0, 0];
      for (const tree of greedy) {
        const nodes = within(tree, shape);
        tokens += 1 + keptOf(tree, nodes);
        ms += draftTime(costs, shape.depth, shape.topK) + passTime(costs, nodes.length);
      }
      assert.ok(Math.abs(roundTime(costs, shape, brought) - ms / greedy.length) < 1e-9);
      const want = tokens / (ms / passTime(costs, 1));
      assert.ok(Math.abs(speedup(costs, shape, brought) / want - 1) < 1e-9);
    }
  }
});

test("the best shape of a size has that size, and no other of the size is faster", () => {
  const { costs } = DEVICES[1]!;
  for (const nodes of [2, 4, 8, 48]) {
    const choice = best(costs, greedy, { ...MOST, nodes });
    assert.ok(choice.rows > nodes - 0.5, `${choice.rows} of ${nodes} rows`);
    for (let depth = 1; depth <= MOST.depth; depth++)
      for (const topK of [1, 2, 4, 8]) {
        const shape = { depth, topK, nodes };
        const brought = yieldOf(greedy, shape);
        if (brought.rows > nodes - 0.5) assert.ok(speedup(costs, shape, brought) <= choice.speedup + 1e-9);
      }
  }
});

test("each story shows what it says", () => {
  const story = (name: string) => {
    const { shape, temperature, device } = STORIES.find(({ id }) => id === name)!;
    const { trees } = RUNS.find((run) => run.temperature === temperature)!;
    const brought = yieldOf(trees, shape);
    const speeds = new Map(DEVICES.map(({ id, costs }) => [id, speedup(costs, shape, brought)]));
    const { costs } = DEVICES.find(({ id }) => id === device)!;
    return { ...brought, trees, speeds, shape, here: speeds.get(device)!, costs };
  };
  for (const [device, speed] of story("chain").speeds) assert.ok(speed > 1, `${device}: ${speed}`);
  const wide = story("wide");
  for (const shape of shapes) {
    const other = yieldOf(wide.trees, shape);
    assert.ok(other.tokens <= wide.tokens && speedup(wide.costs, shape, other) >= wide.here);
  }
  const { here, tokens, shape } = story("disagrees");
  assert.ok(here < 1 && tokens - 1 < shape.depth / 2, `${here} with ${tokens} tokens`);
  const { speeds } = story("devices");
  assert.ok(speeds.get("gpu")! > 1 && speeds.get("cpu")! < 1);
});
