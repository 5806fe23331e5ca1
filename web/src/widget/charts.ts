/** Charts over the rounds, drawn by uPlot; loaded with the first round. */
import uPlot from "uplot";
import uplotStyle from "uplot/dist/uPlot.min.css";
import { el, setText } from "./dom.ts";
import { short } from "./format.ts";
import type { Tally } from "./tally.ts";

const HEIGHT = 132;
/** The initial number of rounds on the axis, so that bars keep their place, and the largest number shown. */
const MIN_ROUNDS = 24;
const MAX_ROUNDS = 240;

const COLOURS = [
  "accepted",
  "relaxed",
  "bonus",
  "corrected",
  "draft",
  "verify",
  "host",
  "neutral",
  "fg",
  "muted",
  "line",
] as const;
type Colour = (typeof COLOURS)[number];
type Palette = Record<Colour, string>;
type Values = (number | null)[];

interface Series {
  label: string;
  colour: Colour;
  how: "bars" | "line" | "steps";
  /** Whether the series uses the right axis, which has integers. */
  right?: boolean;
}

interface Chart {
  name: string;
  title: string;
  hint: string;
  /** The least maximum of the axis. */
  least: number;
  /** Later bars cover earlier ones, so stacked sums come first. */
  series: readonly Series[];
  of(tally: Tally): Values[];
  /** A text alternative for screen readers. */
  describe(tally: Tally): string;
}

const mean = (values: Values): number => {
  const known = values.filter((x) => x !== null);
  return known.reduce((sum, x) => sum + x, 0) / Math.max(known.length, 1);
};

const CHARTS: readonly Chart[] = [
  {
    name: "tokens",
    title: "Acceptance length",
    hint: "tokens per round",
    least: 4,
    series: [
      { label: "extra or corrected", colour: "bonus", how: "bars" },
      { label: "relaxed", colour: "relaxed", how: "bars" },
      { label: "accepted", colour: "accepted", how: "bars" },
      { label: "mean so far (τ)", colour: "fg", how: "line" },
    ],
    of: (t) => [t.committedPerRound, t.acceptedPerRound, t.strictPerRound, t.runningLength],
    describe: (t) => `${t.rounds} rounds, ${t.acceptanceLength.toFixed(2)} tokens per round on average`,
  },
  {
    name: "size",
    title: "Tree size",
    hint: "nodes per round",
    least: 4,
    series: [
      { label: "drafted", colour: "neutral", how: "bars" },
      { label: "verified", colour: "draft", how: "bars" },
    ],
    of: (t) => [t.draftedPerRound, t.nodesPerRound],
    describe: (t) =>
      `${short(mean(t.draftedPerRound))} nodes drafted and ` +
      `${short(mean(t.nodesPerRound))} verified per round on average`,
  },
  {
    name: "entropy",
    title: "Entropy",
    hint: "nats, mean along the accepted path",
    least: 1,
    series: [
      { label: "target", colour: "accepted", how: "line" },
      { label: "draft", colour: "draft", how: "line" },
      { label: "Φ, HeteroSpec's sum", colour: "fg", how: "line" },
      { label: "entropy bin, right axis", colour: "corrected", how: "steps", right: true },
    ],
    of: (t) => [t.targetEntropy, t.draftEntropy, t.phi, t.bin],
    describe: (t) => `target ${short(mean(t.targetEntropy))} nats on average; ${bins(t)}`,
  },
  {
    name: "time",
    title: "Time",
    hint: "ms per round",
    least: 1,
    series: [
      { label: "host", colour: "host", how: "bars" },
      { label: "verify", colour: "verify", how: "bars" },
      { label: "draft", colour: "draft", how: "bars" },
    ],
    of: (t) => {
      const { draft, verify, host } = t.times;
      return [draft.map((d, i) => d + verify[i]! + host[i]!), draft.map((d, i) => d + verify[i]!), draft];
    },
    describe: (t) =>
      `draft ${short(t.msPerRound.draft)}, verify ${short(t.msPerRound.verify)}, ` +
      `host ${short(t.msPerRound.host)} ms per round on average`,
  },
];

/** Describes how many rounds used each entropy bin. */
export function bins(tally: Tally): string {
  const counts = new Map<number, number>();
  for (const bin of tally.bin) if (bin !== null) counts.set(bin, (counts.get(bin) ?? 0) + 1);
  if (counts.size === 0) return "no entropy bins, which only HeteroSpec uses";
  return `rounds by entropy bin: ${[...counts]
    .sort(([a], [b]) => a - b)
    .map(([bin, n]) => `${bin} × ${n}`)
    .join(", ")}`;
}

export class Charts {
  readonly #host: HTMLElement;
  readonly #plots = new Map<Chart, { box: HTMLElement; plot: uPlot | undefined }>();
  readonly #bins = el("p", { class: "bins" }, "\u00a0");
  #tally: Tally | undefined;

  /** Draws in `host` until `signal` aborts; the host's custom properties give the colours. */
  constructor(host: HTMLElement, signal: AbortSignal) {
    this.#host = host;
    const root = host.getRootNode();
    if (root instanceof ShadowRoot) {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(uplotStyle);
      root.adoptedStyleSheets.unshift(sheet); // our rules come later and override it
    }
    host.replaceChildren(
      ...CHARTS.map((chart) => {
        const box = el("div", { class: "plot", role: "img", "aria-label": chart.title });
        this.#plots.set(chart, { box, plot: undefined });
        const key = chart.series.map(({ label, colour, how }) => {
          const swatch = el("i", { class: `swatch ${how}` });
          swatch.style.setProperty("--colour", `var(--${colour})`);
          return el("span", {}, swatch, label);
        });
        return el(
          "figure",
          { "data-chart": chart.name },
          el("figcaption", {}, chart.title, el("small", {}, chart.hint)),
          box,
          el("p", { class: "key", "aria-hidden": "true" }, ...key),
          ...(chart.name === "entropy" ? [this.#bins] : []),
        );
      }),
    );
    const observer = new ResizeObserver(() => this.#fit());
    observer.observe(host);
    // A canvas does not follow changes of CSS.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour(), { signal });
    signal.addEventListener("abort", () => {
      observer.disconnect();
      this.#clear();
    });
  }

  /** Redraws with the current colours. */
  recolour(): void {
    this.#clear();
    this.#fit();
  }

  update(tally: Tally): void {
    this.#tally = tally;
    for (const [chart, { box, plot }] of this.#plots) {
      plot?.setData(this.#data(chart));
      box.setAttribute("aria-label", `${chart.title}: ${chart.describe(tally)}`);
    }
    setText(this.#bins, bins(tally));
  }

  #clear(): void {
    for (const entry of this.#plots.values()) {
      entry.plot?.destroy();
      entry.plot = undefined;
    }
  }

  #fit(): void {
    let palette: Palette | undefined;
    for (const [chart, entry] of this.#plots) {
      const width = Math.floor(entry.box.clientWidth);
      if (width < 40) continue;
      if (!entry.plot) entry.plot = this.#create(chart, entry.box, width, (palette ??= this.#palette()));
      else if (entry.plot.width !== width) entry.plot.setSize({ width, height: HEIGHT });
    }
  }

  #data(chart: Chart): uPlot.AlignedData {
    const tally = this.#tally;
    const from = Math.max(0, (tally?.rounds ?? 0) - MAX_ROUNDS);
    const all = tally ? chart.of(tally) : chart.series.map(() => []);
    return [
      (all[0] ?? []).slice(from).map((_, i) => from + i + 1),
      ...all.map((values) => values.slice(from)),
    ] as uPlot.AlignedData;
  }

  #create(chart: Chart, host: HTMLElement, width: number, colours: Palette): uPlot {
    const bars = uPlot.paths.bars!({ size: [0.78, 18, 1], align: 0 });
    const steps = uPlot.paths.stepped!({ align: -1 });
    const axis = {
      stroke: colours.muted,
      grid: { stroke: colours.line, width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const integers = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
    const right = chart.series.some((s) => s.right);
    return new uPlot(
      {
        width,
        height: HEIGHT,
        padding: [8, right ? 0 : 6, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: {
            time: false,
            range: (_u, min, max) => [
              Math.max(1, min ?? 1) - 0.5,
              Math.max((min ?? 1) + MIN_ROUNDS - 1, max ?? 0) + 0.5,
            ],
          },
          y: { range: (_u, _min, max) => [0, Math.max(chart.least, max ?? 0) * 1.08] },
          ...(right
            ? {
                bin: {
                  range: (_u: uPlot, _min: number | null, max: number | null): uPlot.Range.MinMax => [
                    0,
                    Math.max(4, max ?? 0) + 0.5,
                  ],
                },
              }
            : {}),
        },
        axes: [
          { ...axis, size: 22, incrs: integers, grid: { show: false } },
          { ...axis, size: 34, space: 26 },
          ...(right
            ? [{ ...axis, scale: "bin", side: 1 as const, size: 22, incrs: integers, grid: { show: false } }]
            : []),
        ],
        series: [
          {},
          ...chart.series.map(({ label, colour, how, right }) => ({
            label,
            stroke: colours[colour],
            points: { show: false },
            scale: right ? "bin" : "y",
            spanGaps: how === "line",
            ...(how === "bars"
              ? { fill: colours[colour], width: 0, paths: bars }
              : how === "steps"
                ? { width: 2, dash: [5, 3], paths: steps }
                : { width: 2 }),
          })),
        ],
      },
      this.#data(chart),
      host,
    );
  }

  /** Custom properties may contain light-dark(), which only a computed colour resolves. */
  #palette(): Palette {
    const probe = el("span");
    this.#host.append(probe);
    const palette = {} as Palette;
    for (const name of COLOURS) {
      probe.style.color = `var(--${name})`;
      palette[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    return palette;
  }
}
