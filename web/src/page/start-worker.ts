/**
 * Starts the worker, which starts the Go program and opens WebGPU, while the page's code is still loading. The first
 * {@link Engine} takes over the worker.
 */
import { ahead, spawn } from "../engine/spawn.ts";
import { hostLabel } from "../protocol/devices.ts";
import type { ToWorker } from "../protocol/protocol.ts";

const forget = (): void => {
  ahead.foretokenWorker = undefined; // the engine starts another worker and reports its error
};
try {
  const worker = (ahead.foretokenWorker = spawn());
  worker.addEventListener("error", forget);
  worker.postMessage({
    op: "start",
    webgpu: !hostLabel(new URLSearchParams(location.search).get("device") ?? ""),
  } satisfies ToWorker);
} catch {
  forget();
}
