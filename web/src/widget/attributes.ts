/** The names of the element's attributes, in a separate file so that the element need not load the form's code. */

import { SETTINGS } from "../protocol/settings.ts";

/** Attributes that select the model files and their caching; a change requires a new load. */
export const FILES: readonly string[] = ["target", "draft", "calibrations", "eagle3", "eagle3-config", "cache", "hub"];

/** All observed attributes. */
export const ATTRIBUTES: readonly string[] = [...FILES, "device", "prompt", "theme", ...SETTINGS];
