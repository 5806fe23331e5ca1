/** Places the nodes of a draft's tree, for the widget's drawing and for the player of traces. */
import type { EventTree } from "../protocol/generation.ts";

export type NodeState = "root" | "accepted" | "relaxed" | "rejected" | "pruned";

export interface Placed {
  /** Index in the tree; an index of at least its length refers to the list of pruned nodes. */
  node: number;
  parent: number;
  /** The depth; 0 for the root. */
  column: number;
  /** The middle, in the unit of the heights. */
  y: number;
  state: NodeState;
}

/** The height of a node without children. */
export interface Heights {
  verified: number;
  pruned: number;
}

/**
 * Places every node in the column of its depth and on the line of its first child. Accepted children come first, then
 * verified ones, then pruned ones. So edges do not cross, and the accepted path is a straight line.
 */
export function layout(tree: EventTree, leaf: Heights): { placed: Placed[]; columns: number; height: number } {
  const n = tree.tokens.length;
  const accepted = new Set(tree.accepted);
  const relaxed = new Set(tree.relaxed);
  const children = new Map<number, number[]>();
  const below = (parent: number, node: number): void => {
    const list = children.get(parent);
    if (list) list.push(node);
    else children.set(parent, [node]);
  };
  for (let node = 1; node < n; node++) below(tree.parents[node]!, node);
  tree.pruned.parents.forEach((parent, i) => below(parent, n + i));
  const placed: Placed[] = [];
  let height = 0;
  let columns = 0;
  const place = (node: number, parent: number, column: number): void => {
    const state =
      node >= n
        ? "pruned"
        : node === 0
          ? "root"
          : relaxed.has(node)
            ? "relaxed"
            : accepted.has(node)
              ? "accepted"
              : "rejected";
    const own = state === "pruned" ? leaf.pruned : leaf.verified;
    placed.push({ node, parent, column, y: height + own / 2, state });
    columns = Math.max(columns, column);
    const rank = (child: number): number => (accepted.has(child) ? 0 : child < n ? 1 : 2);
    const list = (children.get(node) ?? []).sort((a, b) => rank(a) - rank(b));
    const begin = height;
    for (const child of list) place(child, node, column + 1);
    height = Math.max(height, begin + own);
  };
  if (n > 0) place(0, -1, 0);
  return { placed, columns, height };
}

/** Makes white space visible, because many tokens consist of it. */
export function visible(text: string): string {
  return text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣");
}
