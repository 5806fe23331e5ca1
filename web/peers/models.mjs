/**
 * The models: target and draft files, from the repository ("demo") or the test models, and the prompt for greedy
 * decoding.
 */
export const MODELS = [
  {
    name: "x3m-f32",
    folder: "testmodels",
    target: "x3m-f32.gguf",
    draft: "s260k-q8_0.gguf",
    prompt: "Once upon a time",
  },
  {
    name: "x26m-q8_0",
    folder: "testmodels",
    target: "x26m-q8_0.gguf",
    draft: "s260k-q8_0.gguf",
    prompt: "Once upon a time",
  },
  {
    name: "x26m-q4_0",
    folder: "testmodels",
    target: "x26m-q4_0.gguf",
    draft: "s260k-q8_0.gguf",
    prompt: "Once upon a time",
  },
  {
    name: "x135m-q8_0",
    folder: "testmodels",
    target: "x135m-q8_0.gguf",
    draft: "s260k-q8_0.gguf",
    prompt: "Once upon a time",
  },
  {
    name: "built-in",
    folder: "demo",
    target: "target-q8_0.gguf",
    draft: "draft-q8_0.gguf",
    prompt: "// Reverse returns its argument string reversed.\nfunc Reverse(s string) string {\n",
  },
];
