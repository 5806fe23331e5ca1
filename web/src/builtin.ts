/** The built-in pair, beside this module wherever it is hosted. */
export const BUILTIN_PAIR = {
  target: new URL("./models/demo/target-q8_0.gguf", import.meta.url).href,
  draft: new URL("./models/demo/draft-q8_0.gguf", import.meta.url).href,
};
