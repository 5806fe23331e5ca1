/** The pace of a race of two traces. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { endedBy, lengthOf, slowDown } from "../../src/player/pace.ts";
import type { TracedRound } from "../../src/protocol/trace.ts";

test("a race of less than two seconds is slowed down, to at least three", () => {
  assert.deepEqual([45, 300, 1999, 2000, 60_000, 0, 3].map(slowDown), [100, 10, 2, 1, 1, 1, 1000]);
  for (let ms = 0.01; ms < 2000; ms *= 1.01) {
    const shown = ms * slowDown(ms);
    assert.ok(shown >= 3000 && shown < 7500, `${ms} ms are shown in ${shown}`);
  }
});

test("rounds end at their times", () => {
  const rounds = [5, 9, 9, 20].map((elapsed_ms) => ({ elapsed_ms }) as TracedRound);
  assert.deepEqual([0, 4.9, 5, 9, 19, 20, 99].map((ms) => endedBy(rounds, ms)), [0, 0, 1, 3, 3, 4, 4]);
  assert.deepEqual([lengthOf(rounds), lengthOf([]), endedBy([], 3)], [20, 0, 0]);
});
