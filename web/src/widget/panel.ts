/** The numbers beside the text: tiles, acceptance per depth, time per round, the chart and the last tree. */
import type { EventTree, RoundTimes } from "../protocol.ts";
import { AcceptanceChart } from "./chart.ts";
import { verdict, type Comparison } from "./compare.ts";
import { el, setText, svg } from "./dom.ts";
import { milliseconds, percent, short } from "./format.ts";
import type { Tally } from "./tally.ts";
import { drawTree } from "./tree.ts";

/** The parts of a round; `within` is a part of parts, so it has no share of its own in the bar. */
const PARTS: readonly { key: keyof RoundTimes; label: string; within?: boolean }[] = [
  { key: "draft", label: "draft" },
  { key: "verify", label: "verify" },
  { key: "host", label: "host" },
  { key: "readback", label: "of it, readback", within: true },
];

/** Depths always shown, so that the panel keeps its height; deeper ones scroll into a second row. */
const MIN_DEPTHS = 5;

type TileName = "speed" | "length" | "ttft" | "calls" | "verified" | "draft";

interface Tile {
  element: HTMLElement;
  value: HTMLElement;
}

export class Panel {
  readonly element: HTMLElement;
  readonly chart: AcceptanceChart;
  readonly #tiles: Record<TileName, Tile>;
  readonly #depths = el("ol", { class: "depths" });
  readonly #times = new Map(PARTS.map((part) => [part.key, { bar: el("i", { class: part.key }), value: el("b", {}, "–") }]));
  readonly #tree = svg("svg", { class: "tree", role: "img", "aria-label": "The last tree drafted" });
  readonly #treeNote = el("p", { class: "empty" }, "The last tree the target verified appears here.");
  readonly #chartHost = el("div", { class: "plot", role: "img", "aria-label": "Tokens committed per round" });
  readonly #compare = el("div", { class: "comparison" });

  constructor() {
    this.#tiles = {
      speed: tile("tok/s", "Decode speed", "speed"),
      length: tile("tokens a pass", "Acceptance length τ", "length", "Committed tokens per target pass, bonus included"),
      ttft: tile("prompt included", "Time to first token", "ttft"),
      calls: tile("target passes", "Calls", "calls"),
      verified: tile("in those passes", "Tokens verified", "verified"),
      draft: tile("of drafted tokens", "Draft acceptance", "draft-acceptance"),
    };
    this.chart = new AcceptanceChart(this.#chartHost);
    this.#treeNote.hidden = false;
    this.element = el(
      "section",
      { class: "panel", "aria-label": "Statistics" },
      el("div", { class: "tiles" }, ...Object.values(this.#tiles).map((t) => t.element)),
      card("Plain against speculative", "Compare runs both on this prompt, in this session", this.#compare),
      card(
        "Tokens per round",
        "",
        el("p", { class: "key", "aria-hidden": "true" }, keyed("accepted", "accepted"), keyed("bonus", "bonus or corrected"), keyed("mean", "mean so far (τ)")),
        this.#chartHost,
      ),
      el(
        "div",
        { class: "pair" },
        card("Acceptance per depth", "accepted / rounds that drafted it", this.#depths),
        card(
          "Time per round",
          "mean, ms",
          el("div", { class: "stack", "aria-hidden": "true" }, ...PARTS.filter((part) => !part.within).map((part) => this.#times.get(part.key)!.bar)),
          el(
            "dl",
            { class: "times" },
            ...PARTS.map((part) =>
              el("div", part.within ? { class: "within", title: "Waiting for results of the device, inside draft and verify" } : {}, el("dt", {}, swatch(part.key), part.label), el("dd", { id: `ms-${part.key}` }, this.#times.get(part.key)!.value)),
            ),
          ),
        ),
      ),
      card("Last tree", "filled: accepted by the target", el("div", { class: "treebox", tabindex: 0, role: "group", "aria-label": "The last tree drafted, scrolls" }, this.#treeNote, this.#tree)),
    );
    this.#drawDepths([]);
    this.showComparison(undefined);
  }

  /** Shows a generation's numbers so far. */
  update(tally: Tally): void {
    const any = tally.rounds > 0;
    const show = (name: TileName, text: string): void => setText(this.#tiles[name].value, any ? text : "–");
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
      setText(value, any ? short(ms[part.key]) : "–");
    }
    this.chart.update(tally);
    const described = any ? `Tokens committed per round: ${tally.rounds} rounds, ${tally.acceptanceLength.toFixed(2)} on average` : "Tokens committed per round";
    this.#chartHost.setAttribute("aria-label", described);
  }

  drawTree(tree: EventTree | undefined): void {
    const any = tree !== undefined;
    this.#treeNote.hidden = any;
    this.#tree.style.display = any ? "block" : "none";
    if (any) drawTree(this.#tree, tree);
  }

  /** The outcome of a comparison, what it is doing, or the invitation to make one. */
  showComparison(state: Comparison | string | undefined): void {
    const known = typeof state === "object" ? state : undefined;
    const fastest = known ? Math.max(known.plain.stats.decode_tok_s, known.speculative.stats.decode_tok_s, 1e-9) : 1;
    const bar = (label: string, name: string, speed: number | undefined): HTMLElement => {
      const fill = el("i", { class: name });
      fill.style.width = speed === undefined ? "0" : `${(100 * speed) / fastest}%`;
      return el("div", { class: "race" }, el("span", {}, label), el("div", { class: "track" }, fill), el("b", { class: `${name}-speed` }, speed === undefined ? "–" : `${short(speed)} tok/s`));
    };
    const text = known ? verdict(known) : undefined;
    this.#compare.replaceChildren(
      bar("Plain", "plain", known?.plain.stats.decode_tok_s),
      bar("Speculative", "speculative", known?.speculative.stats.decode_tok_s),
      el("p", { class: known ? "speed known" : "speed" }, text?.speed ?? (typeof state === "string" ? state : "Not measured yet.")),
      el("p", { class: text ? (text.good ? "tokens good" : "tokens bad") : "tokens" }, text?.tokens ?? "\u00a0"),
    );
  }

  #drawDepths(perDepth: readonly number[]): void {
    const count = Math.max(MIN_DEPTHS, perDepth.length);
    while (this.#depths.children.length < count) {
      const depth = this.#depths.children.length + 1;
      this.#depths.append(el("li", {}, el("span", {}, String(depth)), el("div", { class: "track" }, el("i")), el("b", {}, "–")));
    }
    while (this.#depths.children.length > count) this.#depths.lastElementChild!.remove();
    [...this.#depths.children].forEach((row, i) => {
      const rate = perDepth[i];
      row.querySelector("i")!.style.width = rate === undefined ? "0" : percent(rate);
      setText(row.querySelector("b")!, rate === undefined ? "–" : percent(rate));
    });
  }
}

function tile(unit: string, label: string, name: string, title = ""): Tile {
  const value = el("b", { id: `stat-${name}` }, "–");
  return { value, element: el("div", { class: `tile ${name}`, ...(title ? { title } : {}) }, el("span", { class: "label" }, label), value, el("span", { class: "unit" }, unit)) };
}

function card(title: string, hint: string, ...children: Node[]): HTMLElement {
  return el("article", { class: "card" }, el("h3", {}, title, ...(hint ? [el("small", {}, hint)] : [])), ...children);
}

function keyed(name: string, label: string): HTMLElement {
  return el("span", {}, swatch(name), label);
}

function swatch(name: string): HTMLElement {
  return el("i", { class: `swatch ${name}` });
}
