/** The counts of a request before its first round. */
import type { Counts } from "../../src/protocol/protocol.ts";

export const noCounts = (): Counts => ({
  calls: 0,
  tokens_verified: 0,
  output_tokens: 0,
  drafted: 0,
  accepted: 0,
  relaxed: 0,
  corrected: 0,
  bonus: 0,
  plain: 0,
  depth_drafted: [],
  depth_accepted: [],
});
