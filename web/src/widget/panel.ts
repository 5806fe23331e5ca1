/**
 * The statistics next to the text, in three levels: what happened (the gain and the speed), how (the tree, and which
 * guesses were kept), and the lab with every figure.
 */
import type { EventTree, RoundTimes } from "../protocol/protocol.ts";
import type { Charts } from "./charts.ts";
import type { Comparison } from "./compare.ts";
import { el, setText } from "./dom.ts";
import { milliseconds, percent, short } from "./format.ts";
import type { Tally } from "./tally.ts";
import type { TreeView } from "./tree.ts";

/** The phases of a round; `within` marks a phase that is included in others, so the bar leaves it out. */
const PARTS: readonly { key: keyof RoundTimes; label: string; within?: boolean }[] = [
  { key: "draft", label: "draft" },
  { key: "verify", label: "verify" },
  { key: "host", label: "host" },
  { key: "readback", label: "including readback", within: true },
];

/** The states of the tree's nodes, in a visitor's words. */
const TREE_KEY = [
  ["accepted", "kept"],
  ["relaxed", "kept, lossy"],
  ["rejected", "rejected"],
  ["pruned", "dropped before the check"],
  ["unsure", "how unsure the large model is"],
] as const;

/** The least number of depths shown, in two columns, so that the panel keeps its height. */
const MIN_DEPTHS = 10;

/** A figure before the first run: empty, in the height that it will need. */
const NONE = "\u00a0";

type TileName = "speed" | "length" | "ttft" | "calls" | "verified" | "draft";

interface Tile {
  element: HTMLElement;
  value: HTMLElement;
}

export class Panel {
  readonly element: HTMLElement;
  /** Called when the tree's box opens or closes. */
  onTree: () => void = () => undefined;
  readonly #tiles: Record<TileName, Tile>;
  readonly #depths = el("ol", { class: "depths" });
  readonly #times = new Map(
    PARTS.map((part) => [part.key, { bar: el("i", { class: part.key }), value: el("b", {}, NONE) }]),
  );
  readonly #how = el("details", { class: "level how", open: true });
  readonly #lab = el("details", { class: "level lab" });
  readonly #treeBox = el(
    "div",
    { class: "treebox" },
    el("p", { class: "empty" }, "The guesses of each step appear here, and which of them were kept."),
  );
  readonly #treeDetails = el("p", { class: "tree-details", id: "tree-details" }, "\u00a0");
  readonly #treeText = el("pre", { id: "tree-text", tabindex: 0 });
  readonly #charts = el(
    "div",
    { class: "charts", id: "charts" },
    el("p", { class: "empty" }, "Charts over the rounds appear here: acceptance length, tree size, entropy and time."),
  );
  #tree: Promise<TreeView> | undefined;
  #lastTree: EventTree | undefined;
  #drawing: Promise<Charts> | undefined;
  #tally: Tally | undefined;
  #connected: AbortSignal | undefined;
  readonly #compare = el("div", { class: "comparison" });
  readonly #features = el("p", { class: "empty", id: "features" }, "\u00a0");

  constructor() {
    this.#tiles = {
      speed: tile("tokens a second", "Speed", "speed"),
      length: tile(
        "1 without guesses",
        "Tokens a step",
        "length",
        "Acceptance length τ: committed tokens per pass of the target, including its own extra one",
      ),
      calls: tile("of the large model", "Steps", "calls", "Calls: passes of the target"),
      draft: tile("of all guesses", "Guesses kept", "draft-acceptance", "Draft acceptance: of the drafted tokens"),
      ttft: tile("prompt included", "First token after", "ttft", "Time to first token"),
      verified: tile("in all steps", "Tokens checked", "verified", "Tokens verified: rows of all target passes"),
    };
    const tiles = (...names: TileName[]): HTMLElement =>
      el("div", { class: "tiles" }, ...names.map((name) => this.#tiles[name].element));
    this.#how.append(
      el("summary", {}, "How it went", el("small", {}, "guesses, and what became of them")),
      tiles("calls", "draft"),
      el(
        "article",
        { class: "card tree-card", "aria-label": "The tree of the last step" },
        el("h2", {}, "Guesses of the last step", el("small", {}, "a tree; the path that was kept is on top")),
        this.#treeBox,
        this.#treeDetails,
        el(
          "p",
          { class: "key", "aria-hidden": "true" },
          ...TREE_KEY.map(([name, label]) => el("span", {}, el("i", { class: `swatch node-${name}` }), label)),
        ),
        el("details", { class: "tree-text" }, el("summary", {}, "As text"), this.#treeText),
      ),
      card("Guesses kept, by depth", "of the steps that guessed so far ahead; 1 is the first guess", this.#depths),
    );
    this.#lab.append(
      el("summary", {}, "Lab", el("small", {}, "every figure, over all rounds")),
      tiles("ttft", "verified"),
      card(
        "Time per round",
        "mean, ms",
        el(
          "div",
          { class: "stack", "aria-hidden": "true" },
          ...PARTS.filter((part) => !part.within).map((part) => this.#times.get(part.key)!.bar),
        ),
        el(
          "dl",
          { class: "times" },
          ...PARTS.map((part) =>
            el(
              "div",
              part.within
                ? { class: "within", title: "Waiting for results of the device, included in draft and verify" }
                : {},
              el("dt", {}, swatch(part.key), part.label),
              el("dd", { id: `ms-${part.key}` }, this.#times.get(part.key)!.value),
            ),
          ),
        ),
      ),
      el("article", { class: "card", "aria-label": "Over the rounds" }, this.#features, this.#charts),
    );
    this.#how.addEventListener("toggle", () => {
      this.drawTree(this.#lastTree);
      this.onTree();
    });
    this.#lab.addEventListener("toggle", () => void this.#chart());
    this.element = el(
      "section",
      { class: "panel", "aria-label": "Statistics" },
      card("Is it faster here?", "Compare writes this prompt both ways", this.#compare),
      tiles("speed", "length"),
      this.#how,
      this.#lab,
    );
    this.#drawDepths([]);
    this.showComparison(undefined);
  }

  /** Shows the statistics of a generation so far. */
  update(tally: Tally): void {
    const any = tally.rounds > 0;
    const show = (name: TileName, text: string): void => {
      this.#tiles[name].element.classList.toggle("empty", !any);
      setText(this.#tiles[name].value, any ? text : "no run yet");
    };
    show("speed", short(tally.tokensPerSecond));
    show("length", tally.acceptanceLength.toFixed(2));
    show("ttft", milliseconds(tally.timeToFirstToken));
    show("calls", String(tally.calls));
    show("verified", String(tally.tokensVerified));
    show("draft", percent(tally.draftAcceptance));
    this.#drawDepths(tally.perDepth);
    const ms = tally.msPerRound;
    const total = ms.draft + ms.verify + ms.host;
    for (const part of PARTS) {
      const { bar, value } = this.#times.get(part.key)!;
      bar.style.flexGrow = String(total > 0 ? ms[part.key] / total : 0);
      setText(value, any ? short(ms[part.key]) : NONE);
    }
    this.#tally = tally;
    void this.#chart();
  }

  /** Follows the width and the colour scheme until `signal` aborts. */
  connect(signal: AbortSignal): void {
    this.#connected = signal;
    if (!this.#drawing) return;
    this.#drawing = undefined;
    void this.#chart();
  }

  /** Redraws with the current colours, because a canvas does not follow changes of CSS. */
  recolour(): void {
    void this.#drawing?.then((charts) => charts.recolour());
  }

  /** Draws the charts while the lab is open, from the first round on, and loads the code that draws them. */
  async #chart(): Promise<void> {
    const signal = this.#connected;
    if (!signal || signal.aborted || !this.#lab.open || !(this.#tally?.rounds || this.#drawing)) return;
    this.#drawing ??= import("./charts.ts").then(({ Charts }) => new Charts(this.#charts, signal));
    const charts = await this.#drawing.catch(() => undefined);
    if (!charts)
      this.#drawing = undefined; // the next round tries again
    else if (this.#tally && !signal.aborted) charts.update(this.#tally);
  }

  /** Shows the optional features of the device that the kernels use. */
  showFeatures(names: readonly string[]): void {
    const text = names.length > 0 ? `Features in use: ${names.join(", ")}` : "No optional GPU features in use";
    setText(this.#features, text);
  }

  /** Whether a tree can be seen: the widget shows its panel, and the part with the tree is open. */
  get showsTree(): boolean {
    return this.#how.open && this.#how.getClientRects().length > 0;
  }

  /** Shows a round's tree, while it can be seen. */
  drawTree(tree: EventTree | undefined): void {
    this.#lastTree = tree;
    if (!tree || !this.#how.open) return;
    this.#tree ??= import("./tree.ts").then(
      ({ TreeView }) => new TreeView(this.#treeBox, this.#treeDetails, this.#treeText),
    );
    this.#tree.then(
      (view) => this.#lastTree && view.show(this.#lastTree),
      () => (this.#tree = undefined),
    );
  }

  /** Shows the result of a comparison, its progress, or a hint. */
  showComparison(state: Comparison | string | undefined): void {
    const known = typeof state === "object" ? state : undefined;
    const fastest = known ? Math.max(known.plain_tok_s, known.speculative_tok_s, 1e-9) : 1;
    const bar = (label: string, name: string, speed: number | undefined): HTMLElement => {
      const fill = el("i", { class: name });
      fill.style.width = speed === undefined ? "0" : `${(100 * speed) / fastest}%`;
      return el(
        "div",
        { class: "race" },
        el("span", {}, label),
        el("div", { class: "track" }, fill),
        el("b", { class: `${name}-speed` }, speed === undefined ? "" : `${short(speed)} tok/s`),
      );
    };
    const text = known?.verdict;
    this.#compare.replaceChildren(
      bar("Plain", "plain", known?.plain_tok_s),
      bar(known?.exactness === "lossy" ? "Lossy" : "Speculative", "speculative", known?.speculative_tok_s),
      el(
        "p",
        { class: known ? "speed known" : "speed" },
        text
          ? [text.line, text.why].filter(Boolean).join(". ")
          : typeof state === "string"
            ? state
            : "Not measured yet.",
      ),
      el(
        "p",
        { class: `tokens ${known ? (known.exact ? (text!.good ? "good" : "bad") : known.exactness) : ""}`.trimEnd() },
        ...(known?.exactness === "lossy" ? [el("span", { class: "badge lossy" }, "lossy"), " "] : []),
        text?.tokens ?? "\u00a0",
      ),
    );
  }

  #drawDepths(perDepth: readonly number[]): void {
    const count = Math.max(MIN_DEPTHS, perDepth.length);
    this.#depths.style.setProperty("--rows", String(Math.ceil(count / 2)));
    while (this.#depths.children.length < count) {
      const depth = this.#depths.children.length + 1;
      this.#depths.append(
        el("li", {}, el("span", {}, String(depth)), el("div", { class: "track" }, el("i")), el("b", {}, NONE)),
      );
    }
    while (this.#depths.children.length > count) this.#depths.lastElementChild!.remove();
    [...this.#depths.children].forEach((row, i) => {
      const rate = perDepth[i];
      row.querySelector("i")!.style.width = rate === undefined ? "0" : percent(rate);
      setText(row.querySelector("b")!, rate === undefined ? NONE : percent(rate));
    });
  }
}

function tile(unit: string, label: string, name: string, title = ""): Tile {
  const value = el("b", { id: `stat-${name}` }, "no run yet");
  return {
    value,
    element: el(
      "div",
      { class: `tile ${name} empty`, ...(title ? { title } : {}) },
      el("span", { class: "label" }, label),
      value,
      el("span", { class: "unit" }, unit),
    ),
  };
}

function card(title: string, hint: string | HTMLElement, ...children: Node[]): HTMLElement {
  return el(
    "article",
    { class: "card" },
    el("h2", {}, title, ...(hint ? [typeof hint === "string" ? el("small", {}, hint) : hint] : [])),
    ...children,
  );
}

function swatch(name: string): HTMLElement {
  return el("i", { class: `swatch ${name}` });
}
