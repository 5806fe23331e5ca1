/** Reads the models to load from the attributes of the element. */
import { BUILTIN_HEAD, BUILTIN_PAIR } from "../engine/builtin.ts";
import { ForetokenError } from "../protocol/errors.ts";
import type { Keep } from "../protocol/protocol.ts";
import { FILES } from "./attributes.ts";
import type { Models } from "./picker.ts";

/** Returns the models of the attributes; without any, the built-in pair. */
export function modelsOf(host: HTMLElement): Models {
  const [target, draft, calibrations, eagle3, eagle3_config, cache] = FILES.map((name) => host.getAttribute(name));
  const calibrationFiles = calibrations?.split(/\s+/).filter(Boolean);
  const head = eagle3 === "builtin" ? BUILTIN_HEAD : { eagle3, eagle3_config };
  if (!target && !draft) {
    const models = eagle3 ? { ...BUILTIN_PAIR, ...head } : BUILTIN_PAIR;
    return { ...models, ...(calibrationFiles ? { calibrations: calibrationFiles } : {}) };
  }
  if (!target) throw new ForetokenError("bad_option", "target: attribute: missing; a draft needs a target", "target");
  return { target, draft, calibrations: calibrationFiles, ...head, ...(cache ? { cache: cache as Keep } : {}) };
}
