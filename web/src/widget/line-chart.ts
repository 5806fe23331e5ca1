/** A chart of lines in SVG: a grid, the labels of both axes, and marks. For charts of a few dozen points. */
import { svg } from "./dom.ts";

export type Point = readonly [x: number, y: number];

/** What a chart shows on its axes; `class` names its colours. */
export type Mark = { class: string } & (
  | { line: readonly Point[] }
  /** A surface, by the points around it. */
  | { area: readonly Point[] }
  | { dot: Point; radius: number }
  /** A vertical line through the chart. */
  | { upright: number }
);

export interface LineChart {
  /** The text alternative. */
  label: string;
  /** The size in the units of the font: the chart grows to the width of its place. */
  width: number;
  height: number;
  /** The horizontal axis: its ends, its labels, its title, and whether equal ratios have equal distances. */
  x: { from: number; to: number; labels: readonly number[]; title: string; ratios?: boolean };
  /** The vertical axis, from 0: its end, the distance of its lines, and the value of a line that stands out. */
  y: { to: number; step: number; even?: number };
  /** Later marks cover earlier ones. */
  marks: readonly Mark[];
}

/** The space around the axes, for labels and dots. */
const LEFT = 34;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 38;

/** Draws a chart; styles/line-chart.css has its colours. */
export function lineChart({ label, width, height, x: across, y: up, marks }: LineChart): SVGElement {
  const scale = across.ratios ? Math.log : (value: number) => value;
  const [left, right, bottom] = [LEFT + 6, width - RIGHT, height - BOTTOM];
  const x = (value: number): number =>
    left + ((right - left) * (scale(value) - scale(across.from))) / (scale(across.to) - scale(across.from));
  const y = (value: number): number => bottom - ((bottom - TOP) * value) / up.to;
  const points = (all: readonly Point[]): string =>
    all.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const grid = Array.from({ length: Math.floor(up.to / up.step) + 1 }, (_, i) => i * up.step);
  const draw = (mark: Mark): SVGElement => {
    const { class: name } = mark;
    if ("line" in mark) return svg("polyline", { class: name, points: points(mark.line) });
    if ("area" in mark) return svg("polygon", { class: name, points: points(mark.area) });
    if ("dot" in mark) return svg("circle", { class: name, cx: x(mark.dot[0]), cy: y(mark.dot[1]), r: mark.radius });
    return svg("line", { class: name, x1: x(mark.upright), x2: x(mark.upright), y1: TOP, y2: bottom });
  };
  return svg(
    "svg",
    { class: "line-chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    ...grid.flatMap((value) => [
      svg("line", { class: value === up.even ? "even" : "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)),
    ]),
    ...across.labels.map((at) => svg("text", { x: x(at), y: bottom + 15, "text-anchor": "middle" }, String(at))),
    svg("text", { x: (LEFT + width) / 2, y: height - 5, "text-anchor": "middle" }, across.title),
    ...marks.map(draw),
  );
}
