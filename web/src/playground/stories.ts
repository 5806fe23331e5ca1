/** Settings that show when a draft pays and when it does not; a test checks that each shows what it says. */
import type { Shape } from "./model.ts";

export interface Story {
  id: string;
  title: string;
  text: string;
  temperature: number;
  shape: Shape;
  /** The device that it is about. */
  device: string;
}

export const STORIES: readonly Story[] = [
  {
    id: "chain",
    title: "A chain that always wins",
    text: "Two guesses cost little and are often right, so even the CPU gains a little. All lines are above 1.",
    temperature: 0.5,
    shape: { depth: 2, topK: 1, nodes: 3 },
    device: "large",
  },
  {
    id: "wide",
    title: "A tree too wide",
    text: "No tree writes more tokens a pass, and none is slower here: on a CPU each row takes its time.",
    temperature: 0,
    shape: { depth: 8, topK: 8, nodes: 48 },
    device: "cpu",
  },
  {
    id: "disagrees",
    title: "A draft that disagrees",
    text: "At a high temperature the target often draws what the draft did not guess: most of the chain is wasted.",
    temperature: 1.5,
    shape: { depth: 6, topK: 1, nodes: 7 },
    device: "gpu",
  },
  {
    id: "devices",
    title: "A GPU against a CPU",
    text: "The same tree keeps the same tokens. It pays on the GPU, where rows are cheap, and costs time on the CPU.",
    temperature: 0,
    shape: { depth: 4, topK: 4, nodes: 8 },
    device: "gpu",
  },
];
