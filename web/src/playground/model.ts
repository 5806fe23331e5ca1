/**
 * What a draft of another shape would have brought in a recorded run, and what it would have cost on a device.
 *
 * A recorded tree holds the smaller trees that the same draft model makes of fewer levels, candidates and nodes, and
 * the path that the target kept of it says how much of each the target would have kept. So the yield is counted, not
 * modelled. The cost follows package spec/goodput: a round takes DraftCosts.Time and Costs.Verify, and a draft pays
 * where its tokens per second exceed plain decoding's.
 */
import type { EventTree } from "../protocol/generation.ts";
import type { PassCost } from "../protocol/measurements.ts";

/** The shape of a draft. */
export interface Shape {
  /** The most tokens of a path. */
  depth: number;
  /** Candidates of a node, and nodes of a level that are extended; 1 makes a chain. */
  topK: number;
  /** Rows of the target's pass at most: the nodes, the root included. */
  nodes: number;
}

/** What passes take on a device; both lists rise in `n` and begin with 1. */
export interface Costs {
  /** The target's pass by rows. */
  verify: readonly PassCost[];
  /** Drafting a chain by its tokens. */
  chain: readonly PassCost[];
}

/** The sizes that programs exist for, as spec/goodput's buckets: a pass takes as long as the next larger size. */
export const SIZES: readonly number[] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/** Returns the ms at `n`: between measurements by a straight line, beyond the last along the last line. */
function at(measured: readonly PassCost[], n: number): number {
  const i = measured.findIndex((cost) => cost.n >= n);
  const [from, to] = i < 0 ? measured.slice(-2) : measured.slice(Math.max(i - 1, 0), Math.max(i, 1) + 1);
  if (!from || !to) return measured[0]!.ms;
  return from.ms + ((to.ms - from.ms) * (n - from.n)) / (to.n - from.n);
}

/** Returns the ms of the target's pass over `rows` rows. */
export function passTime({ verify }: Costs, rows: number): number {
  return at(verify, SIZES.find((size) => size >= rows) ?? rows);
}

/**
 * Returns the ms of a draft of `depth` levels with `beams` beams in each after the first. Only chains are timed:
 * further beams of a level take the draft as much longer, in proportion, as further rows take the target.
 */
export function draftTime(costs: Costs, depth: number, beams: number): number {
  if (depth < 1) return 0;
  const root = at(costs.chain, 1);
  return root + ((at(costs.chain, depth) - root) * passTime(costs, beams)) / passTime(costs, 1);
}

/**
 * Returns the nodes of the tree that a draft of this shape would have been, in the tree's order. Each level extends its
 * likeliest `topK` nodes by their likeliest `topK` candidates, and the likeliest of all remain: EAGLE-2's dynamic tree.
 */
export function within(tree: EventTree, { depth, topK, nodes }: Shape): number[] {
  const children = tree.tokens.map((): number[] => []);
  // Recorded scores are rounded: of two equal ones the draft extended the one with children.
  const likeliest = (list: number[], n: number): number[] =>
    list
      .sort((a, b) => tree.scores[b]! - tree.scores[a]! || children[b]!.length - children[a]!.length || a - b)
      .slice(0, n);
  tree.parents.forEach((parent, node) => parent >= 0 && children[parent]!.push(node));
  const all: number[] = [];
  for (let level = 0, beams = [0]; level < depth && beams.length > 0; level++) {
    const candidates = beams.flatMap((beam) => likeliest(children[beam]!, topK));
    all.push(...candidates);
    beams = likeliest(candidates, topK);
  }
  return [0, ...likeliest(all, nodes - 1)].sort((a, b) => a - b);
}

/** Returns how many tokens of the draft the target would have kept if it had verified these nodes. */
export function keptOf(tree: EventTree, nodes: readonly number[]): number {
  const there = new Set(nodes);
  const end = tree.accepted.findIndex((node) => !there.has(node));
  return end < 0 ? tree.accepted.length : end;
}

/** Returns a tree with some of its nodes, which include the parents of each. */
export function cut(tree: EventTree, nodes: readonly number[]): EventTree {
  const place = new Map(nodes.map((node, i) => [node, i]));
  const pick = <T>(list: readonly T[]): T[] => nodes.map((node) => list[node]!);
  const accepted = tree.accepted.slice(0, keptOf(tree, nodes)).map((node) => place.get(node)!);
  return {
    tokens: pick(tree.tokens),
    texts: pick(tree.texts),
    parents: pick(tree.parents).map((parent) => place.get(parent) ?? -1),
    depths: pick(tree.depths),
    scores: pick(tree.scores),
    accepted,
    relaxed: [],
    entropies: [],
    draft_entropies: [],
    pruned: { tokens: [], texts: [], parents: [], scores: [], total: 0 },
  };
}

/** Means over the rounds of a run. */
export interface Yield {
  /** Tokens of a pass: those that were kept, and the target's own. */
  tokens: number;
  /** Rows of a pass: nodes, the root included. */
  rows: number;
  /** The share of rounds that keep at least one token, at least two, and so on up to the depth. */
  reach: number[];
  /** The rows of each round. */
  each: number[];
}

/** Returns what drafts of a shape bring in the rounds with these trees. */
export function yieldOf(trees: readonly EventTree[], shape: Shape): Yield {
  const drafts = trees.map((tree) => within(tree, shape));
  const kept = trees.map((tree, i) => keptOf(tree, drafts[i]!));
  const mean = (list: readonly number[]): number => list.reduce((sum, x) => sum + x, 0) / list.length;
  const each = drafts.map(({ length }) => length);
  const reach = Array.from({ length: shape.depth }, (_, i) => mean(kept.map((n) => Number(n > i))));
  return { tokens: 1 + mean(kept), rows: mean(each), reach, each };
}

/** Returns the ms of a round: its draft, and the target's pass over the tree, as a mean over the rounds. */
export function roundTime(costs: Costs, { depth, topK }: Shape, { each }: Yield): number {
  const passes = each.reduce((sum, rows) => sum + passTime(costs, rows), 0) / each.length;
  return draftTime(costs, depth, topK) + passes;
}

/** Returns how many times as many tokens a second as plain decoding, of one token a pass, a shape brings. */
export function speedup(costs: Costs, shape: Shape, brought: Yield): number {
  return (brought.tokens * passTime(costs, 1)) / roundTime(costs, shape, brought);
}

/** A shape with what it brings on a device. */
export interface Choice extends Yield {
  shape: Shape;
  speedup: number;
}

/**
 * Returns the shape within bounds that brings most tokens a second, of those whose trees have `most.nodes` rows: a
 * draft that is too short or too narrow to fill a pass stands for a smaller one.
 */
export function best(costs: Costs, trees: readonly EventTree[], most: Shape): Choice {
  let found: Choice | undefined;
  for (let depth = 1; depth <= most.depth; depth++)
    for (let topK = 1; topK <= most.topK; topK *= 2) {
      const shape = { depth, topK, nodes: most.nodes };
      const brought = yieldOf(trees, shape);
      const choice = { ...brought, shape, speedup: speedup(costs, shape, brought) };
      const fills = brought.rows > most.nodes - 0.5;
      if (!found || (fills && (found.rows <= most.nodes - 0.5 || choice.speedup > found.speedup))) found = choice;
    }
  return found!;
}
