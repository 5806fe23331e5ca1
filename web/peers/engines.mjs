/**
 * The engines: the page of each, its load options, and the package whose version the report names. `model` selects the
 * files: the GGUF file ("gguf"), the GGUF files of target and draft ("pair"), or the exported weights ("onnx", or
 * "onnx-f32" with all weights as float32, because onnxruntime's CPU multiplies 8-bit weights more slowly).
 */
export const ENGINES = [
  { name: "ours-plain", title: "Foretoken, plain", page: "ours.html", model: "gguf", load: { policy: "none" } },
  { name: "ours-auto", title: "Foretoken, auto", page: "ours.html", model: "pair", load: { policy: "auto" } },
  {
    name: "wllama-1",
    title: "wllama, CPU, 1 thread",
    package: "@wllama/wllama",
    page: "wllama.html",
    model: "gguf",
    load: { threads: 1 },
  },
  {
    name: "wllama-n",
    title: "wllama, CPU, all threads",
    package: "@wllama/wllama",
    page: "wllama.html",
    model: "gguf",
    load: { threads: 0 },
  },
  {
    name: "wllama-draft",
    title: "wllama, CPU, 1 thread, with a draft",
    package: "@wllama/wllama",
    page: "wllama.html",
    model: "pair",
    load: { threads: 1 },
  },
  {
    name: "wllama-webgpu",
    title: "wllama, WebGPU",
    package: "@wllama/wllama",
    page: "wllama.html",
    model: "gguf",
    load: { threads: 0, webgpu: true },
  },
  {
    name: "ort-webgpu",
    title: "onnxruntime-web, WebGPU",
    package: "onnxruntime-web",
    page: "onnx.html",
    model: "onnx",
    load: { provider: "webgpu" },
  },
  {
    name: "ort-wasm-1",
    title: "onnxruntime-web, CPU, 1 thread",
    package: "onnxruntime-web",
    page: "onnx.html",
    model: "onnx-f32",
    load: { provider: "wasm", threads: 1 },
  },
  {
    name: "ort-wasm-n",
    title: "onnxruntime-web, CPU, all threads",
    package: "onnxruntime-web",
    page: "onnx.html",
    model: "onnx-f32",
    load: { provider: "wasm", threads: 0 },
  },
];
