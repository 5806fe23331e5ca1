/**
 * The prompts that the page offers with the built-in pair, which cmd/examples chose. Bundles import them as
 * "foretoken:examples", without the completions: the page decodes those. "foretoken:first-prompt" is the first alone,
 * for what loads before the first use.
 */
import { promises as fs } from "node:fs";

const file = new URL("../models/demo/examples.json", import.meta.url);

/** An esbuild plugin that resolves both. */
export const examples = {
  name: "examples",
  setup(build) {
    const filter = /^foretoken:(examples|first-prompt)$/;
    build.onResolve({ filter }, ({ path }) => ({ path: path.slice("foretoken:".length), namespace: "examples" }));
    build.onLoad({ filter: /.*/, namespace: "examples" }, async ({ path }) => {
      const { tried, passed, examples: chosen } = JSON.parse(await fs.readFile(file, "utf8"));
      const shown = chosen.map(({ title, prompt, stop }) => ({ title, prompt, stop }));
      const contents = path === "examples" ? { tried, passed, examples: shown } : shown[0].prompt;
      return { contents: JSON.stringify(contents), loader: "json" };
    });
  },
};
