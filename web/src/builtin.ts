/** The built-in pair, beside this module wherever it is hosted, with what was fitted to it. */
export const BUILTIN_PAIR = {
  target: new URL("./models/demo/target-q8_0.gguf", import.meta.url).href,
  draft: new URL("./models/demo/draft-q8_0.gguf", import.meta.url).href,
  calibrations: "builtin" as const,
  /** The browser's own cache has it, as it has the page. */
  cache: "off" as const,
};

/** The built-in target's EAGLE-3 head, another 2 MB: loaded where it is asked for. */
export const BUILTIN_HEAD = {
  eagle3: new URL("./models/demo/eagle3.safetensors", import.meta.url).href,
  eagle3Config: new URL("./models/demo/eagle3.json", import.meta.url).href,
};
