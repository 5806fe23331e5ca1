/** The chart of tokens committed per round, drawn by uPlot. */
import uPlot from "uplot";
import type { Tally } from "./tally.ts";

const HEIGHT = 168;
/** Rounds the axis has room for before it grows, so that bars do not crawl. */
const MIN_ROUNDS = 24;

interface Colours {
  accepted: string;
  bonus: string;
  line: string;
  text: string;
  grid: string;
}

export class AcceptanceChart {
  readonly #host: HTMLElement;
  #plot: uPlot | undefined;
  #tally: Tally | undefined;

  /** Draws in `host`, whose computed custom properties give the colours. */
  constructor(host: HTMLElement) {
    this.#host = host;
  }

  /** Begins to follow the width of its box and the colour scheme; `signal` ends it. */
  connect(signal: AbortSignal): void {
    const observer = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry?.contentRect.width ?? 0);
      if (width < 40) return;
      if (this.#plot) this.#plot.setSize({ width, height: HEIGHT });
      else this.#create(width);
    });
    observer.observe(this.#host);
    // Canvas colours do not follow CSS by themselves.
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", () => this.recolour(), { signal });
    signal.addEventListener("abort", () => {
      observer.disconnect();
      this.#plot?.destroy();
      this.#plot = undefined;
    });
  }

  /** Draws again with the colours of now. */
  recolour(): void {
    const width = this.#plot?.width;
    if (width === undefined) return;
    this.#plot?.destroy();
    this.#create(width);
  }

  update(tally: Tally): void {
    this.#tally = tally;
    this.#plot?.setData(this.#data());
  }

  #data(): uPlot.AlignedData {
    const tally = this.#tally;
    if (!tally) return [[], [], [], []];
    return [tally.committedPerRound.map((_, i) => i + 1), tally.committedPerRound, tally.acceptedPerRound, tally.runningLength];
  }

  #create(width: number): void {
    const colours = this.#colours();
    const bars = uPlot.paths.bars!({ size: [0.78, 18, 1], align: 0 });
    const axis = { stroke: colours.text, grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    this.#plot = new uPlot(
      {
        width,
        height: HEIGHT,
        padding: [8, 6, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, range: (_u, _min, max) => [0.5, Math.max(MIN_ROUNDS, max ?? 0) + 0.5] },
          y: { range: (_u, _min, max) => [0, Math.max(4, Math.ceil(max ?? 0)) + 0.4] },
        },
        axes: [
          { ...axis, size: 24, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], grid: { show: false } },
          { ...axis, size: 28, incrs: [1, 2, 5, 10] },
        ],
        series: [
          {},
          { label: "committed", fill: colours.bonus, stroke: colours.bonus, width: 0, paths: bars, points: { show: false } },
          { label: "accepted", fill: colours.accepted, stroke: colours.accepted, width: 0, paths: bars, points: { show: false } },
          { label: "mean so far", stroke: colours.line, width: 2, points: { show: false } },
        ],
      },
      this.#data(),
      this.#host,
    );
  }

  /** Custom properties may hold light-dark(), which only a computed colour resolves. */
  #colours(): Colours {
    const probe = document.createElement("span");
    this.#host.append(probe);
    const resolve = (name: string): string => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const colours = {
      accepted: resolve("--accepted"),
      bonus: resolve("--bonus"),
      line: resolve("--fg"),
      text: resolve("--muted"),
      grid: resolve("--line"),
    };
    probe.remove();
    return colours;
  }
}
