/**
 * The engines: the page each has, what the page loads it with, and the package
 * whose version is reported. `model` says what it reads: the GGUF file itself
 * ("gguf"), that and the draft ("pair"), or the same weights exported ("onnx", or
 * "onnx-f32" with all of them as float32: onnxruntime's CPU products of 8-bit weights
 * took three to five times as long as those of the same weights in float32).
 */
export const ENGINES = [
  { name: "ours-plain", title: "Foretoken, plain", page: "ours.html", model: "gguf", load: { policy: "none" } },
  { name: "ours-auto", title: "Foretoken, auto", page: "ours.html", model: "pair", load: { policy: "auto" } },
  { name: "wllama-1", title: "wllama, CPU, 1 thread", package: "@wllama/wllama", page: "wllama.html", model: "gguf", load: { threads: 1 } },
  { name: "wllama-n", title: "wllama, CPU, all threads", package: "@wllama/wllama", page: "wllama.html", model: "gguf", load: { threads: 0 } },
  { name: "wllama-draft", title: "wllama, CPU, 1 thread, with a draft", package: "@wllama/wllama", page: "wllama.html", model: "pair", load: { threads: 1 } },
  { name: "wllama-webgpu", title: "wllama, WebGPU", package: "@wllama/wllama", page: "wllama.html", model: "gguf", load: { threads: 0, webgpu: true } },
  { name: "ort-webgpu", title: "onnxruntime-web, WebGPU", package: "onnxruntime-web", page: "onnx.html", model: "onnx", load: { provider: "webgpu" } },
  { name: "ort-wasm-1", title: "onnxruntime-web, CPU, 1 thread", package: "onnxruntime-web", page: "onnx.html", model: "onnx-f32", load: { provider: "wasm", threads: 1 } },
  { name: "ort-wasm-n", title: "onnxruntime-web, CPU, all threads", package: "onnxruntime-web", page: "onnx.html", model: "onnx-f32", load: { provider: "wasm", threads: 0 } },
];
