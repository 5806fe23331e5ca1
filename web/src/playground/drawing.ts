/** The playground's drawings: how deep drafts are kept, and how much a tree of each size brings on each device. */
import { el, svg } from "../widget/dom.ts";
import { lineChart, type Mark } from "../widget/line-chart.ts";
import type { EventTree } from "../protocol/generation.ts";
import { type Shape, SIZES, speedup, yieldOf } from "./model.ts";
import type { Device } from "./recorded.ts";

const WIDTH = 520;
const LEFT = 30;
const RIGHT = 10;

const percent = (share: number): string => `${Math.round(100 * share)} %`;

/** Draws the share of rounds that keep at least one token, two, and so on. */
export function reachDrawing(reach: readonly number[]): SVGElement {
  const [height, top, bottom] = [120, 16, 24];
  const step = (WIDTH - LEFT - RIGHT) / reach.length;
  const y = (share: number): number => height - bottom - (height - top - bottom) * share;
  const said = reach.map((share, i) => `${i + 1}: ${percent(share)}`).join(", ");
  return svg(
    "svg",
    {
      class: "bar-chart",
      viewBox: `0 0 ${WIDTH} ${height}`,
      role: "img",
      "aria-label": `Rounds that keep at least so many guesses: ${said}`,
    },
    ...reach.flatMap((share, i) => {
      const x = LEFT + i * step;
      const middle = { "text-anchor": "middle", x: x + step / 2 };
      return [
        svg("rect", { class: "kept", x: x + 3, y: y(share), width: step - 6, height: height - bottom - y(share) }),
        svg("text", { ...middle, y: y(share) - 4 }, percent(share)),
        svg("text", { ...middle, y: height - 8 }, String(i + 1)),
      ];
    }),
    svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: height - bottom, y2: height - bottom }),
  );
}

/** Draws the speed of trees of all sizes on each device, and marks the size of `shape`. */
export function speedDrawing(
  devices: readonly Device[],
  trees: readonly EventTree[],
  shape: Shape,
  most: number,
): HTMLElement {
  const sizes = [...new Set([...SIZES, shape.nodes])].filter((n) => n > 1 && n <= most).sort((a, b) => a - b);
  const brought = sizes.map((nodes) => ({ shape: { ...shape, nodes }, of: yieldOf(trees, { ...shape, nodes }) }));
  const lines = devices.map(({ id, name, costs }) => {
    const values = brought.map(({ shape, of }) => speedup(costs, shape, of));
    return { id, name, values, now: values[sizes.indexOf(shape.nodes)]! };
  });
  const highest = Math.max(1.2, ...lines.flatMap(({ values }) => values));
  const said = lines.map(({ name, now }) => `${name}: ${now.toFixed(2)}`).join("; ");
  const drawing = lineChart({
    label: `Speed in speeds of plain decoding, with ${shape.nodes} nodes. ${said}`,
    width: WIDTH,
    height: 250,
    x: { from: 2, to: most, labels: [2, 4, 8, 16, 32, most], title: "nodes at most", ratios: true },
    y: { to: highest, step: 0.5, even: 1 },
    marks: [
      { class: "now", upright: shape.nodes },
      ...lines.flatMap(({ id, values, now }): Mark[] => [
        { class: id, line: values.map((value, i) => [sizes[i]!, value]) },
        { class: id, dot: [shape.nodes, now], radius: 5 },
      ]),
    ],
  });
  const key = lines.map(({ id, name, now }) =>
    el("li", { class: id }, el("i", {}), el("span", {}, name), el("b", {}, `${now.toFixed(2)} ×`)),
  );
  return el("div", {}, drawing, el("ul", { class: "key" }, ...key));
}
