/** The playground's drawings: how deep drafts are kept, and how much a tree of each size brings on each device. */
import { el, svg } from "../widget/dom.ts";
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
      class: "chart",
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
  const [height, top, bottom] = [250, 10, 40];
  const sizes = [...new Set([...SIZES, shape.nodes])].filter((n) => n > 1 && n <= most).sort((a, b) => a - b);
  const brought = sizes.map((nodes) => ({ shape: { ...shape, nodes }, of: yieldOf(trees, { ...shape, nodes }) }));
  const lines = devices.map(({ id, name, costs }) => {
    const values = brought.map(({ shape, of }) => speedup(costs, shape, of));
    return { id, name, values, now: values[sizes.indexOf(shape.nodes)]! };
  });
  const highest = Math.max(1.2, ...lines.flatMap(({ values }) => values));
  const x = (n: number): number => LEFT + 8 + ((WIDTH - LEFT - RIGHT - 16) * Math.log(n / 2)) / Math.log(most / 2);
  const y = (value: number): number => height - bottom - ((height - top - bottom) * value) / highest;
  const grid = Array.from({ length: Math.floor(2 * highest) + 1 }, (_, i) => i / 2);
  const said = lines.map(({ name, now }) => `${name}: ${now.toFixed(2)}`).join("; ");
  const drawing = svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${WIDTH} ${height}`,
      role: "img",
      "aria-label": `Speed in speeds of plain decoding, with ${shape.nodes} nodes. ${said}`,
    },
    ...grid.flatMap((value) => [
      svg("line", {
        ...(value === 1 ? { class: "even" } : {}),
        x1: LEFT,
        x2: WIDTH - RIGHT,
        y1: y(value),
        y2: y(value),
      }),
      svg("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, String(value)),
    ]),
    svg("line", { class: "now", x1: x(shape.nodes), x2: x(shape.nodes), y1: top, y2: height - bottom }),
    ...[2, 4, 8, 16, 32, most].map((n) =>
      svg("text", { x: x(n), y: height - bottom + 15, "text-anchor": "middle" }, String(n)),
    ),
    svg("text", { x: (LEFT + WIDTH) / 2, y: height - 6, "text-anchor": "middle" }, "nodes at most"),
    ...lines.flatMap(({ id, values, now }) => [
      svg("polyline", { class: id, points: values.map((value, i) => `${x(sizes[i]!)},${y(value)}`).join(" ") }),
      svg("circle", { class: id, cx: x(shape.nodes), cy: y(now), r: 5 }),
    ]),
  );
  const key = lines.map(({ id, name, now }) =>
    el("li", { class: id }, el("i", {}), el("span", {}, name), el("b", {}, `${now.toFixed(2)} ×`)),
  );
  return el("div", {}, drawing, el("ul", { class: "key" }, ...key));
}
