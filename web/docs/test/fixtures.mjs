/** Substitutes for files and flags of the documentation, so that its commands run in seconds. */

/** Files that pages may name, with their contents: a file of test/models, or text. */
export const FILES = {
  "big.gguf": { model: "big.gguf" },
  "big-00001-of-00003.gguf": { model: "big-00001-of-00003.gguf" },
  "big-00002-of-00003.gguf": { model: "big-00002-of-00003.gguf" },
  "big-00003-of-00003.gguf": { model: "big-00003-of-00003.gguf" },
  "small.gguf": { model: "small.gguf" },
  "chat.gguf": { model: "chat.gguf" },
  "model-f16.gguf": { model: "model-f16.gguf" },
  "SmolLM2-135M-Instruct": { model: "checkpoint" },
  "prompt.txt": { text: "func main() {\n" },
  "prompts.jsonl": { text: '{"id": "a-1", "category": "a", "prompt": "func main() {"}\n' },
};

/** Files that a page creates before it names them. */
export const MADE = { "cli.md": ["prompts.jsonl"], "performance.md": ["prompts.jsonl"] };

/**
 * Flags that the test adds to a command to make it quick; they override earlier flags. The CPU device compiles no
 * shaders. The first entry that matches the start of a command line applies; * matches anything.
 */
export const FLAGS = [
  {
    command: "generate*--calibration",
    flags: "--device cpu --target small.gguf --max-tokens 8 --depth 1 --top-k 2 --nodes 3",
  },
  { command: "generate", flags: "--device cpu --max-tokens 8" },
  { command: "chat", flags: "--device cpu --max-tokens 8" },
  { command: "serve", flags: "--device cpu --addr 127.0.0.1:0 --json" },
  { command: "bench verify-cost", flags: "--device cpu --rows 1,2 --repeat 1 --max-tokens 4 --length 8" },
  { command: "bench*--profile", flags: "--device cpu" },
  { command: "bench", flags: "--device cpu --limit 1 --repeat 1 --max-tokens 4" },
  { command: "sample-prompts", flags: "--device cpu --target small.gguf --count 20 --max-tokens 12" },
  {
    command: "calibrate hetero",
    flags: "--device cpu --target small.gguf --tokens 42 --every --depth 1 --top-k 2 --nodes 3",
  },
  { command: "train c2t", flags: "--device cpu --tokens 12 --epochs 1" },
  { command: "train acceptance-head", flags: "--device cpu --tokens 12 --epochs 1" },
];

/** Flags in the text that belong to other programs. */
export const OTHERS_FLAGS = ["--engines", "--help", "--reference", "--enable-unsafe-webgpu", "--provenance"];
