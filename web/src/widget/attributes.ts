/** Names that the element watches; a list of its own, so that it needs none of the form's code. */

/** Attributes that name files, and how they are had; another of them means another load. */
export const FILES: readonly string[] = ["target", "draft", "calibrations", "eagle3", "eagle3-config", "cache", "hub"];

/** Attributes that are settings of a request: the method, and the keys of the form's fields with dashes. */
export const SETTINGS: readonly string[] =
  (
    "policy depth top-k nodes shape ngram-max ngram-min threshold lambda schedule any one-pruning alpha no-extension no-pruning no-adaptation " +
    "theta gap mode variant carry temperature seed max-tokens adapt source verifier coupled top-k-sampling top-p min-p"
  ).split(" ");

/** All that are watched. */
export const ATTRIBUTES: readonly string[] = [...FILES, "device", "prompt", "theme", ...SETTINGS];
