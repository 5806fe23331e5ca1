/** Draws what the target's passes over several rows cost here and on a GPU, which explains a comparison. */
import type { PassCost } from "../protocol/protocol.ts";
import { el } from "../widget/dom.ts";
import { lineChart } from "../widget/line-chart.ts";
import { explain, GPU, onGPU } from "../widget/row-costs.ts";

/** Draws both, with the text alternative and a key. `costs` has two passes or more, by rising rows. */
export function costChart(costs: readonly PassCost[]): HTMLElement {
  const most = costs.at(-1)!.n;
  const gpu = onGPU(most);
  const top = Math.max(...costs.map(({ ratio }) => ratio), ...gpu.map((range) => range.most), 2);
  const here = costs.map(({ n, ratio }) => [n, ratio] as const);
  const chart = lineChart({
    label: explain(costs),
    width: 360,
    height: 190,
    x: { from: 1, to: most, labels: costs.map(({ n }) => n), title: "tokens that a step checks" },
    y: { to: top, step: [1, 2, 5, 10, 20, 50].find((one) => top / one <= 5) ?? 100 },
    marks: [
      {
        class: "gpu",
        area: [
          ...gpu.map((range) => [range.n, range.most] as const),
          ...gpu.map((range) => [range.n, range.least] as const).reverse(),
        ],
      },
      { class: "here", line: here },
      ...here.map((dot) => ({ class: "here", dot, radius: 2.5 })),
    ],
  });
  const key = (name: string, label: string): HTMLElement => el("span", {}, el("i", { class: `swatch ${name}` }), label);
  return el(
    "figure",
    { class: "row-costs" },
    el("figcaption", {}, "Time of a step, in steps of one token"),
    chart,
    el("p", { class: "key" }, key("here", "here"), key("gpu", `${GPU.models} models on ${GPU.name}`)),
  );
}
