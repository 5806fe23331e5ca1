/** The runs and costs that the playground works with: recorded by cmd/examples, and measured by reports. */
import cpu from "../../../docs/reports/costs.json";
import gpuTargets from "../../../docs/reports/gpu-costs.json";
import gpu from "../../../docs/reports/gpu-products.json";
import type { EventTree } from "../protocol/generation.ts";
import { readTrace } from "../protocol/trace.ts";
import type { Costs } from "./model.ts";
import at0 from "./recorded/temperature-0.trace";
import at05 from "./recorded/temperature-0.5.trace";
import at1 from "./recorded/temperature-1.trace";
import at15 from "./recorded/temperature-1.5.trace";

/** A run of the built-in pair with large trees. */
export interface Run {
  temperature: number;
  prompt: string;
  /** The trees of the rounds that end with a token of the target. */
  trees: EventTree[];
}

const FILES = [
  [0, at0],
  [0.5, at05],
  [1, at1],
  [1.5, at15],
] as const;

export const RUNS: readonly Run[] = FILES.map(([temperature, bytes]) => {
  const { prompt, rounds } = readTrace(bytes);
  // A text that ends within a path says nothing of the tokens after it.
  const whole = rounds.filter(({ tree, tokens }) => tree && tokens.length > tree.accepted.length);
  return { temperature, prompt, trees: whole.map(({ tree }) => tree!) };
});

/** The bounds of the recorded trees: what `large` of cmd/examples asks for. */
export const MOST = { depth: 8, topK: 8, nodes: 48 };

export interface Device {
  id: string;
  name: string;
  costs: Costs;
}

const [pair, large] = [cpu.data["built-in"], gpuTargets.data["qwen4b-q4_k"]];

export const DEVICES: readonly Device[] = [
  { id: "cpu", name: `CPU (${cpu.machine})`, costs: { verify: pair.verify, chain: pair.chain } },
  {
    id: "gpu",
    name: `GPU (${gpu.data.adapter.name})`,
    costs: { verify: gpu.data.costs.verify, chain: gpu.data.costs.chain },
  },
  {
    id: "large",
    name: `GPU, 4B target (${gpu.data.adapter.name})`,
    costs: { verify: large.verify, chain: gpu.data.costs.chain },
  },
];
