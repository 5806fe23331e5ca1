/**
 * Starts the worker, which starts the Go program and opens WebGPU, while the page's code is still loading. The first
 * {@link Engine} takes over the worker.
 */
import type { ToWorker } from "../protocol/protocol.ts";

const ahead = globalThis as { foretokenWorker?: Worker | undefined };
const worker = (ahead.foretokenWorker = new Worker(new URL("./worker.js", import.meta.url), {
  type: "module",
  name: "foretoken",
}));
const forget = (): void => {
  ahead.foretokenWorker = undefined; // the engine starts another worker and reports its error
};
worker.addEventListener("error", forget);
worker.postMessage({
  op: "start",
  webgpu: !["cpu", "reference"].includes(new URLSearchParams(location.search).get("device") ?? ""),
} satisfies ToWorker);
