/** Draws the tree of the last round: a column per depth, the accepted path filled. */
import type { EventTree } from "../protocol.ts";
import { svg } from "./dom.ts";

const COLUMN = 92;
const ROW = 22;
const BOX = { width: 74, height: 18 };

export interface Placed {
  node: number;
  /** -1 for a child of the root. */
  parent: number;
  column: number;
  row: number;
}

/**
 * Places nodes in columns by depth and rows in order, every parent at the mean
 * row of its children, which keeps edges from crossing. Nodes of depth 0 (the
 * root) are left out: the root is drawn as the edge of the picture.
 */
export function layout(tree: Pick<EventTree, "parents" | "depths">): { placed: Placed[]; rows: number; columns: number } {
  const children = new Map<number, number[]>();
  tree.depths.forEach((depth, node) => {
    if (depth < 1) return;
    const parent = tree.parents[node] ?? -1;
    const key = depth === 1 ? -1 : parent;
    const list = children.get(key);
    if (list) list.push(node);
    else children.set(key, [node]);
  });
  const placed: Placed[] = [];
  let rows = 0;
  let columns = 0;
  const place = (node: number, parent: number): number => {
    const column = (tree.depths[node] ?? 1) - 1;
    columns = Math.max(columns, column + 1);
    const below = (children.get(node) ?? []).map((child) => place(child, node));
    const row = below.length > 0 ? (below[0]! + below.at(-1)!) / 2 : rows++;
    placed.push({ node, parent, column, row });
    return row;
  };
  for (const node of children.get(-1) ?? []) place(node, -1);
  return { placed, rows, columns };
}

/** Replaces what `host` shows by the tree. */
export function drawTree(host: SVGSVGElement, tree: EventTree): void {
  const { placed, rows, columns } = layout(tree);
  const width = 14 + Math.max(columns, 1) * COLUMN;
  const height = Math.max(rows, 1) * ROW;
  const accepted = new Set(tree.accepted);
  const at = new Map(placed.map((p) => [p.node, p]));
  const middle = height / 2;
  const edges: SVGElement[] = [];
  const boxes: SVGElement[] = [];
  for (const p of placed) {
    const x = 14 + p.column * COLUMN;
    const y = p.row * ROW + ROW / 2;
    const parent = at.get(p.parent);
    const fromX = parent ? 14 + parent.column * COLUMN + BOX.width : 6;
    const fromY = parent ? parent.row * ROW + ROW / 2 : middle;
    const state = accepted.has(p.node) ? "accepted" : "rejected";
    const bend = (fromX + x) / 2;
    edges.push(svg("path", { class: `edge ${state}`, d: `M${fromX} ${fromY}C${bend} ${fromY} ${bend} ${y} ${x} ${y}` }));
    boxes.push(
      svg(
        "g",
        { class: `node ${state}`, transform: `translate(${x} ${y - BOX.height / 2})` },
        svg("title", {}, `${visible(tree.texts[p.node] ?? "")} · ${state} · score ${(tree.scores[p.node] ?? 0).toFixed(2)}`),
        svg("rect", { width: BOX.width, height: BOX.height, rx: 4 }),
        svg("text", { x: 6, y: 13 }, clip(visible(tree.texts[p.node] ?? ""))),
      ),
    );
  }
  host.setAttribute("viewBox", `0 0 ${width} ${height}`);
  // A large tree shrinks to fit its box, down to where text is still readable.
  host.style.aspectRatio = `${width} / ${height}`;
  host.style.height = `min(${height}px, max(100%, ${Math.round(0.7 * height)}px))`;
  host.replaceChildren(...edges, ...boxes, svg("circle", { class: "root", cx: 5, cy: middle, r: 4 }));
}

/** White space made visible, as a token is often nothing else. */
export function visible(text: string): string {
  return text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/ /g, "·");
}

function clip(text: string): string {
  return text.length > 10 ? `${text.slice(0, 9)}…` : text;
}
