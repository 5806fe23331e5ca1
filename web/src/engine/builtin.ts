import type { EngineInfo } from "../protocol/protocol.ts";
import { defined, type LoadOptions } from "./loading.ts";

/** The EAGLE-3 head of the built-in target, 4 MB. */
const EAGLE3 = {
  eagle3: new URL("./models/demo/eagle3.safetensors", import.meta.url).href,
  eagle3_config: new URL("./models/demo/eagle3.json", import.meta.url).href,
};

/**
 * The built-in pair with its calibrations, served from the same folder as this module; with its EAGLE-3 head where that
 * pays.
 */
export const BUILTIN_PAIR = {
  ...EAGLE3,
  eagle3_if_it_pays: true,
  target: new URL("./models/demo/target-q8_0.gguf", import.meta.url).href,
  draft: new URL("./models/demo/draft-q8_0.gguf", import.meta.url).href,
  calibrations: "builtin" as const,
  /** The browser's HTTP cache stores these files together with the page. */
  cache: "off" as const,
};

/** Whether the target is the built-in one, which can answer but was made to continue Go code. */
export const isBuiltin = ({ target }: EngineInfo): boolean => target.name === "Go code 7.3M";

/** What {@link BUILTIN_PAIR} takes in addition to have its head everywhere. */
export const BUILTIN_HEAD = { ...EAGLE3, eagle3_if_it_pays: false };

/** Adds the built-in pair where no model is named. */
export const withBuiltin = (given: LoadOptions = {}): LoadOptions =>
  given.target || given.draft
    ? given
    : { ...BUILTIN_PAIR, ...(given.eagle3 && BUILTIN_HEAD), ...defined(given), target: BUILTIN_PAIR.target };
