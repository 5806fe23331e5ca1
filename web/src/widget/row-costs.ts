/**
 * Explains a comparison by what the target's passes over several rows cost here, next to what they cost on a GPU. A
 * draft pays where further rows are cheap.
 */
import report from "../../../docs/reports/gpu-costs.json";
import type { PassCost } from "../protocol/protocol.ts";

/** The costs of a pass of `n` rows, of all measured models: the least and the largest, in passes over one row. */
export interface Range {
  n: number;
  least: number;
  most: number;
}

const measured = Object.values(report.data);
/** The GPU of the report, and how many models it timed. */
export const GPU = { name: measured[0]!.device.replace(/^\w+, /, ""), models: measured.length };

/** Returns what passes up to `most` rows cost on the GPU of the report. */
export function onGPU(most: number): Range[] {
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
