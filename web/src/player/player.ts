/** The elements that play traces without an engine. */
export { ForetokenRace, type RaceTraces } from "./race.ts";
export { ForetokenTree } from "./tree-player.ts";
export { readTrace, type Trace, type TracedRound } from "../protocol/trace.ts";
export { ForetokenError } from "../protocol/errors.ts";
