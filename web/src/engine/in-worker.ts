import type { Engine } from "./engine.ts";
import type { LoadOptions } from "./loading.ts";

/** Loads models in a worker; the code for it comes with the first call. */
export const loadInWorker = async (options?: LoadOptions): Promise<Engine> =>
  (await import("./engine.ts")).Engine.load(options);
