/**
 * Starts the worker, and in it the Go program and the graphics device, while the page's own code is still on
 * its way; the first {@link Engine} takes it.
 */
import type { ToWorker } from "./protocol.ts";

const ahead = globalThis as { foretokenWorker?: Worker | undefined };
const worker = (ahead.foretokenWorker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "foretoken" }));
const forget = (): void => {
  ahead.foretokenWorker = undefined; // the engine starts its own, and hears what is wrong with it
};
worker.addEventListener("error", forget);
worker.postMessage({ op: "start", webgpu: new URLSearchParams(location.search).get("device") !== "cpu" } satisfies ToWorker);
