/** Elements as data: functions without a DOM make them, and {@link patch} shows their changes. */
import { el } from "./dom.ts";

/** An element, before it is built. */
export interface Branch {
  tag: keyof HTMLElementTagNameMap;
  attributes: Record<string, string>;
  children: Leaf[];
}

export type Leaf = Branch | string;

/** Creates the node of a leaf. */
export function build(leaf: Leaf): Node {
  if (typeof leaf === "string") return document.createTextNode(leaf);
  return el(leaf.tag, leaf.attributes, ...leaf.children.map(build));
}

/** Changes the children of `parent` from index `first` on, which show `old`, to show `fresh`. Keeps equal nodes. */
export function patch(parent: Node, first: number, old: readonly Leaf[], fresh: readonly Leaf[]): void {
  for (const [i, leaf] of fresh.entries()) {
    const before = old[i];
    const node = parent.childNodes[first + i];
    if (before === undefined || !node) parent.appendChild(build(leaf));
    else if (typeof leaf === "string" && typeof before === "string") {
      if (leaf.startsWith(before)) {
        if (leaf !== before) (node as Text).appendData(leaf.slice(before.length));
      } else (node as Text).data = leaf;
    } else if (typeof leaf !== "string" && typeof before !== "string" && alike(before, leaf))
      patch(node, 0, before.children, leaf.children);
    else parent.replaceChild(build(leaf), node);
  }
  for (let i = old.length; i > fresh.length; i--) parent.childNodes[first + i - 1]!.remove();
}

function alike(a: Branch, b: Branch): boolean {
  return a.tag === b.tag && JSON.stringify(a.attributes) === JSON.stringify(b.attributes);
}
