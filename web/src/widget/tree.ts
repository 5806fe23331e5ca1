/**
 * Draws the tree of the latest round: a column per depth, the accepted path at the top, rejected branches below it, and
 * small nodes for drafted tokens that were pruned before verification. Keyboards and screen readers can navigate the
 * tree, and it is available as text. Loaded with the first round.
 */
import type { EventTree } from "../protocol/protocol.ts";
import { setText, svg } from "./dom.ts";
import { short } from "./format.ts";
import { type Heights, layout, type NodeState, type Placed, visible } from "./layout.ts";

const COLUMN = 86;
const BOX = { width: 70, height: 18 };
/** The height of a leaf in px. */
export const LEAF: Heights = { verified: 23, pruned: 11 };
const ROOT = 18;
/** The entropy in nats that fills a node's bar. */
const UNSURE = 4;

const WORDS: Record<NodeState, string> = {
  root: "the last token, whose successors were drafted",
  accepted: "accepted",
  relaxed: "accepted although the target chose another (lossy)",
  rejected: "rejected",
  pruned: "pruned before verification",
};

/** Describes a node in words. */
export function describe(tree: EventTree, { node, column, state }: Placed): string {
  const n = tree.tokens.length;
  const text = node < n ? tree.texts[node] : tree.pruned.texts[node - n];
  const parts = [`“${visible(text ?? "")}” ${WORDS[state]}`];
  if (state !== "root")
    parts.push(
      `depth ${column}`,
      `score ${((node < n ? tree.scores[node] : tree.pruned.scores[node - n]) ?? 0).toFixed(2)}`,
    );
  const [target, draft] = [tree.entropies[node], tree.draft_entropies[node]];
  const known = [
    target === undefined ? "" : `target ${short(target)}`,
    draft === undefined || draft < 0 ? "" : `draft ${short(draft)}`,
  ].filter(Boolean);
  if (state !== "pruned" && known.length > 0) parts.push(`entropy of what follows: ${known.join(", ")} nats`);
  return parts.join(" · ");
}

/** Describes the tree in lines of text. */
export function asText(tree: EventTree): string {
  return layout(tree, LEAF)
    .placed.map((at) => `${"  ".repeat(at.column)}${describe(tree, at)}`)
    .join("\n");
}

/** Summarises a tree in a sentence. */
export function summary(tree: EventTree): string {
  const verified = Math.max(tree.tokens.length - 1, 0);
  const deep = tree.depths.reduce((most, depth) => Math.max(most, depth), 0);
  const tokens = verified === 1 ? "token" : "tokens";
  const levels = deep === 1 ? "level" : "levels";
  const outcome = `${tree.accepted.length} accepted, ${verified - tree.accepted.length} rejected`;
  return `${verified} drafted ${tokens} verified in ${deep} ${levels}: ${outcome}; ${tree.pruned.total} pruned before`;
}

export class TreeView {
  readonly #svg = svg("svg", { class: "tree", role: "tree" });
  readonly #name: string;
  readonly #details: HTMLElement;
  readonly #text: HTMLElement;
  #tree: EventTree | undefined;
  #waiting: EventTree | undefined;
  #placed = new Map<number, { at: Placed; element: SVGElement }>();
  #current = 0;

  /** Draws in the scrolling `box`, describes a node in `details`, and the tree in `text` while that is open. */
  constructor(box: HTMLElement, details: HTMLElement, text: HTMLElement, name = "The tree of the last round") {
    this.#name = name;
    this.#svg.setAttribute("aria-label", name);
    this.#details = details;
    this.#text = text;
    box.replaceChildren(this.#svg);
    const nodeOf = (event: Event): number | undefined => {
      const node = (event.target as Element).closest<SVGElement>(".node")?.dataset["node"];
      return node === undefined ? undefined : Number(node);
    };
    this.#svg.addEventListener("pointerover", (event) => this.#tell(nodeOf(event)));
    this.#svg.addEventListener("focusin", (event) => this.#tell(nodeOf(event)));
    for (const end of ["pointerleave", "focusout"])
      this.#svg.addEventListener(end, () => setTimeout(() => this.#release()));
    this.#svg.addEventListener("keydown", (event) => this.#key(event));
    this.#text.closest("details")?.addEventListener("toggle", () => this.#write());
  }

  /** Shows a tree, unless the user hovers over or focuses a node of the current one; then shows it afterwards. */
  show(tree: EventTree): void {
    if (tree === this.#tree) return;
    if (this.#inspected) {
      this.#waiting = tree;
      return;
    }
    this.#draw(tree);
  }

  get #inspected(): boolean {
    return this.#svg.querySelector(".node:hover, .node:focus") !== null;
  }

  #release(): void {
    if (this.#inspected) return;
    const tree = this.#waiting;
    this.#waiting = undefined;
    if (tree) this.#draw(tree);
    else this.#tell(undefined);
  }

  #draw(tree: EventTree): void {
    this.#tree = tree;
    const { placed, columns, height } = layout(tree, LEAF);
    this.#placed.clear();
    const edges: SVGElement[] = [];
    const nodes: SVGElement[] = [];
    for (const at of placed) {
      const x = at.column === 0 ? 0 : ROOT + (at.column - 1) * COLUMN + 12;
      const from = this.#placed.get(at.parent)?.at;
      if (from) {
        const fromX =
          from.column === 0
            ? ROOT - 4
            : ROOT + (from.column - 1) * COLUMN + 12 + (from.state === "pruned" ? 8 : BOX.width);
        const bend = fromX + (x - fromX) * 0.55;
        edges.push(
          svg("path", {
            class: `edge ${at.state}`,
            d: `M${fromX} ${from.y}C${bend} ${from.y} ${fromX} ${at.y} ${x} ${at.y}`,
          }),
        );
      }
      const element = this.#node(tree, at, x);
      nodes.push(element);
      this.#placed.set(at.node, { at, element });
    }
    this.#svg.setAttribute("width", String(ROOT + columns * COLUMN + 6));
    this.#svg.setAttribute("height", String(Math.max(height, LEAF.verified)));
    this.#svg.setAttribute("aria-label", `${this.#name}: ${summary(tree)}`);
    this.#svg.replaceChildren(svg("g", { "aria-hidden": "true" }, ...edges), ...nodes);
    this.#current = 0;
    this.#tell(undefined);
    this.#write();
  }

  #node(tree: EventTree, at: Placed, x: number): SVGElement {
    const n = tree.tokens.length;
    const common = {
      class: `node ${at.state}`,
      role: "treeitem",
      "aria-level": at.column + 1,
      "aria-label": describe(tree, at),
      tabindex: at.node === 0 ? 0 : -1,
      "data-node": at.node,
    };
    if (at.state === "root") return svg("g", common, svg("circle", { cx: 9, cy: at.y, r: 5 }));
    if (at.state === "pruned") return svg("g", common, svg("rect", { x, y: at.y - 4, width: 8, height: 8, rx: 2 }));
    const unsure = tree.entropies[at.node] ?? tree.draft_entropies[at.node] ?? -1;
    const bar = Math.max(0, Math.min(1, unsure / UNSURE)) * (BOX.width - 8);
    return svg(
      "g",
      { ...common, transform: `translate(${x} ${at.y - BOX.height / 2})` },
      svg("rect", { width: BOX.width, height: BOX.height, rx: 4 }),
      // The box cuts off a long text, which the accessible name has to contain.
      svg("svg", BOX, svg("text", { x: 6, y: 12.5 }, visible((at.node < n ? tree.texts[at.node] : "") ?? ""))),
      ...(bar > 0.5 ? [svg("path", { class: "unsure", d: `M4 16.5h${bar.toFixed(1)}` })] : []),
    );
  }

  #tell(node: number | undefined): void {
    const known = node === undefined ? undefined : this.#placed.get(node);
    if (this.#tree) setText(this.#details, known ? describe(this.#tree, known.at) : summary(this.#tree));
  }

  #write(): void {
    if (this.#tree && this.#text.closest("details")?.open) setText(this.#text, asText(this.#tree));
  }

  #key(event: KeyboardEvent): void {
    const order = [...this.#placed.keys()];
    const i = order.indexOf(this.#current);
    const at = this.#placed.get(this.#current)?.at;
    const next = {
      ArrowDown: order[i + 1],
      ArrowUp: order[i - 1],
      ArrowLeft: at?.parent,
      ArrowRight: [...this.#placed.values()].find((one) => one.at.parent === this.#current)?.at.node,
      Home: order[0],
      End: order.at(-1),
    }[event.key];
    const to = next === undefined ? undefined : this.#placed.get(next);
    if (!to) return;
    event.preventDefault();
    this.#placed.get(this.#current)?.element.setAttribute("tabindex", "-1");
    this.#current = next!;
    to.element.setAttribute("tabindex", "0");
    to.element.focus();
    to.element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
