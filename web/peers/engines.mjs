/**
 * The engines: the page of each, its load options, and the package whose version the report names. `model` selects the
 * files: the GGUF file ("gguf"), the GGUF files of target and draft ("pair"), or the exported weights ("onnx", or
 * "onnx-f32" with all weights as float32, because onnxruntime's CPU multiplies 8-bit weights more slowly). The first
 * is what the others are compared with.
 */
export const ENGINES = [
  {
    name: "ours-1",
    title: "Foretoken, CPU, 1 thread",
    page: "ours.html",
    model: "gguf",
    load: { device: "cpu", threads: 1, policy: "none" },
  },
  {
    name: "ours-n",
    title: "Foretoken, CPU, all threads",
    page: "ours.html",
    model: "gguf",
    load: { device: "cpu", policy: "none" },
  },
  {
    name: "ours-auto-1",
    title: "Foretoken, CPU, 1 thread, auto",
    page: "ours.html",
    model: "pair",
    load: { device: "cpu", threads: 1, policy: "auto" },
  },
  {
    name: "ours-auto-n",
    title: "Foretoken, CPU, all threads, auto",
    page: "ours.html",
    model: "pair",
    load: { device: "cpu", policy: "auto" },
  },
  {
    name: "ours-webgpu",
    title: "Foretoken, WebGPU",
    page: "ours.html",
    model: "gguf",
    load: { device: "webgpu", policy: "none" },
  },
  {
    name: "ours-webgpu-auto",
    title: "Foretoken, WebGPU, auto",
    page: "ours.html",
    model: "pair",
    load: { device: "webgpu", policy: "auto" },
  },
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
