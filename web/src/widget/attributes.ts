/** The names of the element's attributes, in a separate file so that the element need not load the form's code. */

/** Attributes that select the model files and their caching; a change requires a new load. */
export const FILES: readonly string[] = ["target", "draft", "calibrations", "eagle3", "eagle3-config", "cache", "hub"];

/** Attributes that set request settings: the method, and the keys of the form's fields with dashes. */
export const SETTINGS: readonly string[] = (
  "policy depth top-k nodes shape ngram-max ngram-min threshold lambda schedule any one-pruning alpha no-extension " +
  "no-pruning no-adaptation theta gap mode variant carry temperature seed max-tokens adapt source verifier coupled " +
  "top-k-sampling top-p min-p"
).split(" ");

/** All observed attributes. */
export const ATTRIBUTES: readonly string[] = [...FILES, "device", "prompt", "theme", ...SETTINGS];
