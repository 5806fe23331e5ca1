const STORY =
  "Once upon a time, there was a little girl named Lily. She loved to play outside in the park with her friends. " +
  "One day, she saw a big dog and a small cat. They ran after a red ball, and the sun was warm and bright. ";

/**
 * The models: target and draft files, from the repository ("demo") or the test models, and the prompt for greedy
 * decoding. `context` is what engines are given that take one, by default CONTEXT. Those that are `large` are made by
 * scripts/largemodels.py; of them, `long` is a prompt that is timed too, and `native` ones exceed what pages can have.
 */
export const CONTEXT = 512;
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
  {
    name: "x135m-q4_k",
    folder: "testmodels",
    target: "x135m-q4_k.gguf",
    draft: "s260k-q8_0.gguf",
    prompt: "Once upon a time",
  },
  {
    name: "llama1b-q4_k",
    folder: "testmodels",
    target: "llama1b-q4_k.gguf",
    prompt: "Once upon a time",
    context: 2048,
    large: true,
    long: STORY.repeat(25),
  },
  {
    name: "qwen4b-q4_k",
    folder: "testmodels",
    target: "qwen4b-q4_k.gguf",
    prompt: "Once upon a time",
    context: 2048,
    large: true,
    native: true,
  },
];
