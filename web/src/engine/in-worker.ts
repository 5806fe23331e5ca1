import type { Engine } from "./engine.ts";
import type { LoadOptions } from "./loading.ts";

/** Loads models in a worker; the code for it comes with the first call. `complete` adds to checked options. */
export const loadInWorker = async (
  options?: LoadOptions,
  complete?: (checked: LoadOptions) => LoadOptions,
): Promise<Engine> => (await import("./engine.ts")).Engine.load(options, complete);
