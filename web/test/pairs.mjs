/** Pairs of models and prompts that scripts measure in Chromium, and the statistics that they share. */
import { promises as fs } from "node:fs";
import path from "node:path";
import { root } from "./site.mjs";

/** Statistics of a list of numbers. */
export const median = (list) => {
  const s = [...list].sort((a, b) => a - b);
  const half = Math.floor(s.length / 2);
  return s.length % 2 === 1 ? s[half] : (s[half - 1] + s[half]) / 2;
};
export const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;

/**
 * The 95 % interval of a statistic `of` a list, by the bootstrap of Efron: of 2,000 lists of as many elements drawn
 * with replacement, always the same ones.
 */
export function interval(list, of) {
  let state = 1;
  const below = (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((n * state) / 2 ** 32);
  };
  const drawn = Array.from({ length: 2000 }, () => of(list.map(() => list[below(list.length)]))).sort((a, b) => a - b);
  return [drawn[50], drawn[1949]];
}

/** The prompts, or rows of prompts, of each category. */
export function byCategory(list, of = (x) => x) {
  const by = new Map();
  for (const x of list) by.set(of(x).category, [...(by.get(of(x).category) ?? []), x]);
  return by;
}

/** The prompts of a file of testdata, taken evenly from the categories: the first ones represent all. */
async function promptsOf(name) {
  const text = await fs.readFile(path.join(root, "testdata", name), "utf8");
  const all = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const by = byCategory(all);
  const order = [];
  for (let i = 0; order.length < all.length; i++) for (const list of by.values()) if (list[i]) order.push(list[i]);
  return order;
}

/** Where the models of the stories are. */
export const MODELS = path.join(root, "build", "testmodels");

const stories = (draft, target = "x26m-q8_0") => ({
  title: `${target} with ${draft}`,
  query: `target=models/${target}.gguf&draft=models/${draft}.gguf`,
  flags: ["--target", path.join(MODELS, `${target}.gguf`), "--draft", path.join(MODELS, `${draft}.gguf`)],
  prompts: () => promptsOf("prompts-stories.jsonl"),
});

/** Pairs of models that scripts measure: title, query of bench.html, flags of the CLI, prompts. */
export const PAIRS = {
  q8: stories("s260k-q8_0"),
  q4: stories("s260k-q8_0", "x26m-q4_0"),
  noisy: stories("s260k-noisy-q8_0"),
  large: stories("s260k-q8_0", "x135m-q8_0"),
  "large-noisy": stories("s260k-noisy-q8_0", "x135m-q8_0"),
  "large-q4-noisy": stories("s260k-noisy-q8_0", "x135m-q4_0"),
  half: stories("x26m-q4_0", "x26m-q8_0"),
  builtin: { title: "the built-in pair", query: "", flags: [], prompts: () => promptsOf("prompts-go.jsonl") },
};

/** A table of pairs, each with its title and a row of figures by name. */
export function markdown(pairs) {
  const cells = (row) => Object.values(row).map((value) => Number(value.toFixed(2)));
  const head = ["", ...Object.keys(pairs[0].rows[0])];
  const table = [head, head.map(() => "---"), ...pairs.map(({ title, rows }) => [title, ...cells(rows[0])])];
  return table.map((line) => `| ${line.join(" | ")} |`).join("\n");
}
