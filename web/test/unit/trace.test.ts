import assert from "node:assert/strict";
import { test } from "node:test";
import sample from "../../../trace/testdata/trace.json" with { type: "json" };
import { ForetokenError } from "../../src/protocol/errors.ts";
import { readTrace, TreeReader } from "../../src/protocol/trace.ts";

const bytes = Uint8Array.from(atob(sample.trace), (character) => character.charCodeAt(0));

test("a trace of the Go program is read as the Go program reads it", () => {
  assert.deepEqual(readTrace(bytes), sample.want);
});

test("a trace may end after any of its trees", () => {
  const kept = new Set<number>();
  for (let end = 1; end <= bytes.length; end++) {
    try {
      const { rounds } = readTrace(bytes.subarray(0, end));
      const trees = rounds.filter(({ tree }) => tree).length;
      assert.deepEqual(rounds.slice(0, trees), sample.want.rounds.slice(0, trees));
      kept.add(trees);
    } catch (cause) {
      assert.ok(cause instanceof ForetokenError, String(cause));
    }
  }
  assert.deepEqual([...kept], [0, 1, 2, 3]);
});

test("what is no trace is refused with the reason", () => {
  const round = [1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 5, 8, 120];
  for (const [from, says] of [
    [[], "trace: it ends within version"],
    [[2], "trace: its version is 2, and this program reads version 1"],
    [[1, 255, 255, 255, 255, 255, 1], "trace: prompt is more than 65536"],
    [[1, 0, 255, 255, 255, 255, 127], "trace: run is more than 2147483647"],
    [[1, 129, 0, 120], "trace: prompt is longer than it needs"],
    [[1, 1, 255], "trace: prompt is not UTF-8"],
    [[1, 0, 1, 2], "trace: rounds is more than 1"],
    [[1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 5, 5], "trace: round 1: a token has the unknown kind 5"],
    [[...round, 100, 0], "trace: tree 1: it ends within 100 nodes"],
    [[...round, 2, 0, 0, 5, 1, 120, 0, 2], "trace: tree 1: node 1 has parent 1, want an earlier node"],
    [[...round, 2, 0, 0, 5, 1, 120, 0, 1], "trace: tree 1: node 1 has parent -1, want an earlier node"],
    [
      [...round, 3, 0, 0, 5, 1, 120, 0, 0, 0, 2, 0, 0, 2, 0],
      "trace: tree 1: its path has 2 nodes, but the round 1 tokens",
    ],
    [[...round, 1, 0, 0, 5, 1, 120, 0, 0, 9], "trace: 1 bytes follow the last tree"],
  ] as const)
    assert.throws(() => readTrace(Uint8Array.from(from)), new ForetokenError("unreadable", says));
  assert.throws(() => readTrace("AQ" as unknown as Uint8Array), /it is no Uint8Array/);
  assert.throws(() => readTrace(new Uint8Array((4 << 20) + 1)), /it has 4194305 bytes/);
  assert.throws(() => new TreeReader().readAlone(Uint8Array.of(1, 0, 0, 5, 1, 120, 0, 0, 9), []), /1 bytes follow/);
});

test("a changed trace is refused, or has trees that can be drawn", () => {
  let seed = 1;
  const random = (below: number): number =>
    Math.floor(((seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31) * below);
  let read = 0;
  for (let turn = 0; turn < 20_000; turn++) {
    const changed = Array.from(bytes);
    for (let n = random(3); n >= 0; n--) {
      const at = random(changed.length);
      if (random(3) > 0) changed[at] = random(256);
      else if (random(2) > 0) changed.splice(at, random(4));
      else changed.splice(at, 0, random(256));
    }
    try {
      const { rounds } = readTrace(Uint8Array.from(changed));
      read++;
      for (const { tree, tokens } of rounds) {
        if (!tree) continue;
        const { length } = tree.tokens;
        assert.ok(tree.parents.every((parent, node) => (node === 0 ? parent === -1 : parent >= 0 && parent < node)));
        assert.ok(tree.accepted.every((node, i) => tree.parents[node] === (tree.accepted[i - 1] ?? 0)));
        assert.ok(tree.accepted.length <= tokens.length && tree.pruned.tokens.length <= 32);
        assert.ok(tree.pruned.parents.every((parent, i) => parent >= 0 && parent < length + i));
        for (const list of [tree.texts, tree.depths, tree.scores]) assert.equal(list.length, length);
        for (const list of [tree.entropies, tree.draft_entropies]) assert.ok([0, length].includes(list.length));
        assert.ok([...tree.scores, ...tree.pruned.scores].every((score) => score <= 0 && Number.isFinite(score)));
      }
    } catch (cause) {
      assert.ok(cause instanceof ForetokenError && cause.code === "unreadable", String(cause));
    }
  }
  assert.ok(read > 1000, `${read} of the changed traces were read`);
});
