import type { EngineInfo } from "../protocol/protocol.ts";
import { defined, type LoadOptions } from "./loading.ts";

/** The built-in pair with its calibrations, served from the same folder as this module. */
export const BUILTIN_PAIR = {
  target: new URL("./models/demo/target-q8_0.gguf", import.meta.url).href,
  draft: new URL("./models/demo/draft-q8_0.gguf", import.meta.url).href,
  calibrations: "builtin" as const,
  /** The browser's HTTP cache stores these files together with the page. */
  cache: "off" as const,
};

/** Whether the target is the built-in one, which can answer but was made to continue Go code. */
export const isBuiltin = ({ target }: EngineInfo): boolean => target.name === "Go code 7.3M";

/** The EAGLE-3 head of the built-in target, 4 MB. */
export const BUILTIN_HEAD = {
  eagle3: new URL("./models/demo/eagle3.safetensors", import.meta.url).href,
  eagle3_config: new URL("./models/demo/eagle3.json", import.meta.url).href,
};

/** Adds the built-in pair where no model is named. */
export const withBuiltin = (given: LoadOptions): LoadOptions =>
  given.target || given.draft
    ? given
    : { ...BUILTIN_PAIR, ...defined(given), target: BUILTIN_PAIR.target };
