/** What the player shows of a trace, and in which order: the scene of each round, its steps, and its words. */
import type { EventTree, EventToken } from "../protocol/generation.ts";
import type { Trace, TracedRound } from "../protocol/trace.ts";
import { layout, visible } from "../widget/layout.ts";

export type NodeKind = "root" | "kept" | "relaxed" | "rejected" | "own";

/** A token of a scene. The target's own token follows the path that it kept. */
export interface SceneNode {
  text: string;
  /** Index in the scene, -1 for the root. */
  parent: number;
  /** Column 0 holds the root. */
  column: number;
  /** The line in units of a node's height; the kept path is on line 0.5. */
  line: number;
  kind: NodeKind;
  /** The draft's probability of the token after its parent, from 0 to 1; missing if the draft had none. */
  probability?: number;
}

export interface Scene {
  nodes: SceneNode[];
  /** The columns and lines that the nodes take. */
  columns: number;
  lines: number;
  /** Drafted tokens, also those that are not drawn, and rows of the pass that verified them. */
  guesses: number;
  rows: number;
  /** The number of guesses that are not drawn. */
  hidden: number;
  kept: number;
  own: number;
}

export type Phase = "guess" | "check" | "keep" | "write";

/** A step of a round: nodes up to `column` are there. `ms` is how long it stays at normal speed. */
export interface Step {
  phase: Phase;
  column: number;
  ms: number;
}

/** A step of a trace, by indices from 0. */
export interface Place {
  round: number;
  step: number;
}

/** How long steps stay, in ms at normal speed. */
const TIMES = { guess: 190, guessed: 420, check: 620, keep: 480, write: 1050 };

const isGuess = ({ kind }: EventToken): boolean => kind === "accepted" || kind === "relaxed";

/** The tree of a round that came without one: its tokens in a row. */
function chainOf({ tokens }: TracedRound, before: string): EventTree {
  const guesses = tokens.filter(isGuess);
  const path = guesses.map((_, i) => i + 1);
  return {
    tokens: [-1, ...guesses.map(({ id }) => id)],
    texts: [before, ...guesses.map(({ text }) => text)],
    parents: [-1, ...path.map((node) => node - 1)],
    depths: [0, ...path],
    scores: [0, ...path.map(() => 0)],
    accepted: path,
    relaxed: path.filter((_, i) => guesses[i]!.kind === "relaxed"),
    entropies: [],
    draft_entropies: [],
    pruned: { tokens: [], texts: [], parents: [], scores: [], total: 0 },
  };
}

/** Returns the nodes to draw if a tree may take `lines` lines: without the leaves of the lowest scores. */
function drawn(tree: EventTree, lines: number): number[] {
  const children = tree.tokens.map(() => 0);
  for (const parent of tree.parents) if (parent >= 0) children[parent]!++;
  const kept = new Set(tree.accepted);
  const removed = new Set<number>();
  let leaves = children.filter((n) => n === 0).length;
  const order = tree.tokens.map((_, node) => node).filter((node) => node > 0 && !kept.has(node));
  // A node has at most its parent's score, and comes after it: leaves come first.
  order.sort((a, b) => tree.scores[a]! - tree.scores[b]! || b - a);
  for (const node of order) {
    if (leaves <= lines) break;
    removed.add(node);
    if (--children[tree.parents[node]!]! > 0) leaves--;
  }
  return tree.tokens.map((_, node) => node).filter((node) => !removed.has(node));
}

/** Returns the scene of a round after the token `before`, in at most `lines` lines. */
export function sceneOf(round: TracedRound, before: string, lines: number): Scene {
  const all = round.tree ?? chainOf(round, before);
  const guesses = all.tokens.length - 1;
  const own = round.tokens.slice(all.accepted.length);
  const scored = all.scores.some((score) => score !== 0);
  const shown = drawn(all, Math.max(1, lines - 1));
  const place = new Map(shown.map((node, i) => [node, i]));
  const path = all.accepted.map((node) => place.get(node)!);
  const relaxed = new Set(all.relaxed.map((node) => place.get(node)!));
  const pick = <T>(list: readonly T[]): T[] => shown.map((node) => list[node]!);
  const tree: EventTree = {
    ...all,
    tokens: pick(all.tokens),
    texts: pick(all.texts),
    parents: pick(all.parents).map((parent) => place.get(parent) ?? -1),
    scores: pick(all.scores),
    accepted: path,
    relaxed: [...relaxed],
    pruned: { tokens: [], texts: [], parents: [], scores: [], total: 0 },
  };
  if (own.length > 0) {
    tree.accepted = [...path, tree.tokens.length];
    tree.parents.push(path.at(-1) ?? 0);
    tree.tokens.push(own[0]!.id);
    tree.texts.push(own.map(({ text }) => text).join(""));
    tree.scores.push(0);
  }
  const { placed, columns, height } = layout(tree, { verified: 1, pruned: 0 });
  const nodes: SceneNode[] = [];
  for (const { node, parent, column, y } of placed) {
    const kind =
      node === 0
        ? "root"
        : node >= shown.length
          ? "own"
          : relaxed.has(node)
            ? "relaxed"
            : path.includes(node)
              ? "kept"
              : "rejected";
    const one: SceneNode = { text: tree.texts[node]!, parent, column, line: y, kind };
    if (scored && kind !== "root" && kind !== "own")
      one.probability = Math.min(1, Math.exp(tree.scores[node]! - tree.scores[parent]!));
    nodes[node] = one;
  }
  return {
    nodes,
    columns: columns + 1,
    lines: height,
    guesses,
    rows: guesses + 1,
    hidden: guesses + 1 - shown.length,
    kept: all.accepted.length,
    own: own.length,
  };
}

/** Returns the steps of a scene: the draft grows column by column, is checked, and its kept path becomes text. */
export function stepsOf({ guesses, nodes }: Scene): Step[] {
  const all = nodes.reduce((most, { column }) => Math.max(most, column), 0);
  const drafted = nodes.reduce((most, { column, kind }) => (kind === "own" ? most : Math.max(most, column)), 0);
  const grow = Array.from({ length: drafted + 1 }, (_, column): Step => ({ phase: "guess", column, ms: TIMES.guess }));
  grow.at(-1)!.ms = TIMES.guessed;
  return [
    ...(guesses > 0 ? grow : []),
    { phase: "check", column: drafted, ms: TIMES.check },
    { phase: "keep", column: all, ms: TIMES.keep },
    { phase: "write", column: all, ms: TIMES.write },
  ];
}

/** The figures of a trace up to a round, that round included. */
export interface Figures {
  tokens: number;
  passes: number;
  /** The most rows of one of the passes. */
  rows: number;
  /** From the start of the request. */
  ms: number;
}

/** The rounds of a trace in the order of their steps. */
export class Order {
  readonly trace: Trace;
  readonly #lines: number;
  readonly #scenes: Scene[] = [];

  /** Scenes take at most `lines` lines. */
  constructor(trace: Trace, lines: number) {
    this.trace = trace;
    this.#lines = lines;
  }

  scene(round: number): Scene {
    const before = this.trace.rounds[round - 1]?.text ?? this.trace.prompt.slice(-1);
    return (this.#scenes[round] ??= sceneOf(this.trace.rounds[round]!, before, this.#lines));
  }

  steps(round: number): Step[] {
    return stepsOf(this.scene(round));
  }

  step({ round, step }: Place): Step {
    return this.steps(round)[step]!;
  }

  /** The last step of a round, when its tokens are part of the text. */
  end(round: number): Place {
    return { round, step: this.steps(round).length - 1 };
  }

  next({ round, step }: Place): Place | undefined {
    if (step + 1 < this.steps(round).length) return { round, step: step + 1 };
    return round + 1 < this.trace.rounds.length ? { round: round + 1, step: 0 } : undefined;
  }

  previous({ round, step }: Place): Place | undefined {
    if (step > 0) return { round, step: step - 1 };
    return round > 0 ? this.end(round - 1) : undefined;
  }

  figures(round: number): Figures {
    const rounds = this.trace.rounds.slice(0, round + 1);
    const tokens = rounds.reduce((sum, one) => sum + one.tokens.length, 0);
    const rows = rounds.reduce((most, one) => Math.max(most, one.tree?.tokens.length ?? 1), 0);
    return { tokens, passes: rounds.length, rows, ms: rounds.at(-1)?.elapsed_ms ?? 0 };
  }
}

/** A number with its noun. */
export const counted = (n: number, one: string, more = `${one}s`): string => `${n} ${n === 1 ? one : more}`;

/** Says in a few words what happens in a step. */
export function caption(scene: Scene, phase: Phase, ms: number): string {
  const { guesses, rows, kept, own } = scene;
  if (phase === "guess") return "the small model guesses what may come next";
  if (phase === "check")
    return guesses > 0
      ? `the large model checks ${counted(guesses, "guess", "guesses")} in one pass`
      : "no guess: the large model writes one token";
  const wrote = own > 0 ? (kept > 0 ? `${kept} kept, 1 of its own` : "none kept, 1 of its own") : `${kept} kept`;
  if (phase === "keep") return guesses > 0 ? wrote : "1 of its own";
  const pass = `one pass of ${counted(rows, "row")}, ${duration(ms)}`;
  return `${counted(kept + own, "token")} for ${pass}`;
}

/** Describes a round in a sentence, for listeners. */
export function sentence(order: Order, round: number): string {
  const scene = order.scene(round);
  const { tokens, ms } = order.trace.rounds[round]!;
  const guessed =
    scene.guesses > 0
      ? `The small model guessed ${counted(scene.guesses, "token")}, the large model kept ${scene.kept}` +
        `${scene.own > 0 ? " and wrote one" : ""}`
      : "The large model wrote one token";
  const written = tokens.map((token) => token.text).join("");
  const text = written.trim() || visible(written);
  const took = `${counted(tokens.length, "token")} in one pass, ${duration(ms.draft + ms.verify + ms.host)}`;
  return `Round ${round + 1} of ${order.trace.rounds.length}. ${guessed}: ${text}. ${took}.`;
}

/** Formats a time for display. */
export function duration(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(0)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 10 ? ms.toFixed(0) : ms.toFixed(1)} ms`;
}
