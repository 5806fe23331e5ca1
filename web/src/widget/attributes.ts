/** The names of the element's attributes, in a separate file so that the element need not load the form's code. */

import { SETTINGS } from "../protocol/settings.ts";

const OF_FILES = ["target", "draft", "calibrations", "eagle3", "eagle3-config", "cache", "hub"] as const;
const OTHERS = ["device", "prompt", "theme"] as const;

/** Attributes that select the model files and their caching; a change requires a new load. */
export const FILES: readonly string[] = OF_FILES;

/** All observed attributes. */
export const ATTRIBUTES: readonly string[] = [...OF_FILES, ...OTHERS, ...SETTINGS];

/** The name of an observed attribute. */
export type Attribute = (typeof OF_FILES | typeof OTHERS | typeof SETTINGS)[number];
