/**
 * Explains a comparison by what the target's passes over several rows cost here, next to what they cost on a GPU. A
 * draft pays where further rows are cheap.
 */
import report from "../../../docs/reports/gpu-costs.json";
import type { PassCost } from "../protocol/protocol.ts";
import { el, svg } from "./dom.ts";

/** The costs of a pass of `n` rows, of all measured models: the least and the largest, in passes over one row. */
interface Range {
  n: number;
  least: number;
  most: number;
}

const measured = Object.values(report.data);
const GPU = { name: measured[0]!.device.replace(/^\w+, /, ""), models: measured.length };

/** What passes up to `most` rows cost on the GPU of the report. */
function onGPU(most: number): Range[] {
  return measured[0]!.verify
    .map(({ n }) => n)
    .filter((n) => n <= most)
    .map((n) => {
      const ratios = measured.flatMap(({ verify }) => verify.filter((cost) => cost.n === n).map(({ ratio }) => ratio));
      return { n, least: Math.min(...ratios), most: Math.max(...ratios) };
    });
}

/** Says what the widest timed pass costs here and on the GPU. */
export function explain(costs: readonly PassCost[]): string {
  const { n, ratio } = costs.at(-1)!;
  const gpu = onGPU(n).at(-1)!;
  return (
    `A step that checks ${n} tokens takes ${ratio.toFixed(1)} times as long as one of a single token here; ` +
    `on ${GPU.name} ${gpu.least.toFixed(1)} to ${gpu.most.toFixed(1)} times.`
  );
}

const WIDTH = 360;
const HEIGHT = 190;
const LEFT = 34;
const BOTTOM = 34;
const TOP = 10;
const RIGHT = 12;

/** Draws both, with the text alternative and a key. `costs` has two passes or more, by rising rows. */
export function drawing(costs: readonly PassCost[]): HTMLElement {
  const most = costs.at(-1)!.n;
  const gpu = onGPU(most);
  const top = Math.max(...costs.map(({ ratio }) => ratio), ...gpu.map((range) => range.most), 2);
  const x = (n: number): number => LEFT + ((WIDTH - LEFT - RIGHT) * (n - 1)) / (most - 1);
  const y = (ratio: number): number => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * ratio) / top;
  const points = (of: readonly (readonly [number, number])[]): string =>
    of.map(([n, ratio]) => `${x(n).toFixed(1)},${y(ratio).toFixed(1)}`).join(" ");
  const step = [1, 2, 5, 10, 20, 50].find((one) => top / one <= 5) ?? 100;
  const lines = Array.from({ length: Math.floor(top / step) + 1 }, (_, i) => i * step);
  const here = costs.map(({ n, ratio }) => [n, ratio] as const);
  const chart = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": explain(costs) },
    ...lines.flatMap((value) => [
      svg("line", { class: "grid-line", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)),
    ]),
    ...costs.map(({ n }) => svg("text", { x: x(n), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, String(n))),
    svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "tokens that a step checks"),
    svg("polygon", {
      class: "gpu-costs",
      points: points([
        ...gpu.map((range) => [range.n, range.most] as const),
        ...gpu.map((range) => [range.n, range.least] as const).reverse(),
      ]),
    }),
    svg("polyline", { class: "here-costs", points: points(here) }),
    ...here.map(([n, ratio]) => svg("circle", { class: "here-costs", cx: x(n), cy: y(ratio), r: 3 })),
  );
  const key = (name: string, label: string): HTMLElement => el("span", {}, el("i", { class: `swatch ${name}` }), label);
  return el(
    "figure",
    { class: "row-costs" },
    el("figcaption", {}, "Time of a step, in steps of one token"),
    chart,
    el("p", { class: "key" }, key("here", "here"), key("gpu", `${GPU.models} models on ${GPU.name}`)),
  );
}
