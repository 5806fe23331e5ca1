/** The pace of a race: how much a replay is slowed down, and which rounds have ended by a time. */
import type { TracedRound } from "../protocol/trace.ts";

/** Milliseconds: a shorter race is slowed down, to take at least the second. */
const SHORT = 2000;
const SLOWED = 3000;

/** Returns the factor by which a replay of `ms` milliseconds is slowed down: 1, 2, 5, 10, 20, 50 and so on. */
export function slowDown(ms: number): number {
  if (!(ms > 0) || ms >= SHORT) return 1;
  const power = 10 ** Math.floor(Math.log10(SLOWED / ms));
  return [1, 2, 5, 10].map((step) => step * power).find((factor) => factor * ms >= SLOWED)!;
}

/** Returns the time of a whole run in milliseconds, prompt included. */
export function lengthOf(rounds: readonly TracedRound[]): number {
  return rounds.at(-1)?.elapsed_ms ?? 0;
}

/** Returns the number of rounds that have ended after `ms` milliseconds; times rise. */
export function endedBy(rounds: readonly TracedRound[], ms: number): number {
  let [low, high] = [0, rounds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rounds[middle]!.elapsed_ms <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}
