/**
 * The prompts that the page offers with the built-in pair, which cmd/examples chose. Bundles import them as
 * "foretoken:examples", without the completions: the page decodes those.
 */
import { promises as fs } from "node:fs";

const file = new URL("../models/demo/examples.json", import.meta.url);

/** An esbuild plugin that resolves them. */
export const examples = {
  name: "examples",
  setup(build) {
    build.onResolve({ filter: /^foretoken:examples$/ }, () => ({ path: "examples", namespace: "examples" }));
    build.onLoad({ filter: /.*/, namespace: "examples" }, async () => {
      const { tried, passed, examples: chosen } = JSON.parse(await fs.readFile(file, "utf8"));
      const shown = chosen.map(({ title, prompt, stop }) => ({ title, prompt, stop }));
      return { contents: JSON.stringify({ tried, passed, examples: shown }), loader: "json" };
    });
  },
};
