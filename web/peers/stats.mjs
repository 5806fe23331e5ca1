/** Summarises repetitions and compares texts. */

/** Returns the median. */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Returns the rates of one decode by its clock in milliseconds: milliseconds to the first tokens, and tokens per second
 * after them ("decode") and from the start ("whole"). Without tokens after the first ones there is no decode rate.
 */
export function rates({ asked, first, end, tokens, firstTokens }) {
  const later = tokens - firstTokens;
  return {
    ttft_ms: first - asked,
    decode_tok_s: later > 0 && end > first ? (later * 1000) / (end - first) : null,
    whole_tok_s: (tokens * 1000) / (end - asked),
  };
}

/** Returns median, minimum and maximum of each rate over repetitions; null if no repetition has it. */
export function summary(runs) {
  const of = (key) => {
    const values = runs.map((run) => run[key]).filter((value) => value !== null);
    return values.length
      ? { median: median(values), min: Math.min(...values), max: Math.max(...values), n: values.length }
      : null;
  };
  return { ttft_ms: of("ttft_ms"), decode_tok_s: of("decode_tok_s"), whole_tok_s: of("whole_tok_s") };
}

/**
 * Compares an engine's output with the reference, by token ids if known, else by text. `reference` has `ids` and
 * `texts` of its tokens. `at` is the index of the first different token, or -1, and `tokens` is the number of compared
 * tokens. An output that ends early counts as equal up to its end. Nothing is known of a text without the reference's.
 */
export function agreement(reference, output) {
  if (output.ids) {
    const tokens = Math.min(reference.ids.length, output.ids.length);
    for (let i = 0; i < tokens; i++) if (reference.ids[i] !== output.ids[i]) return { at: i, tokens };
    return { at: -1, tokens };
  }
  if (!reference.texts) return undefined;
  let seen = "";
  for (const [i, text] of reference.texts.entries()) {
    const known = output.text.slice(seen.length, seen.length + text.length);
    if (!text.startsWith(known)) return { at: i, tokens: i + 1 };
    if (known.length < text.length) return { at: -1, tokens: i };
    seen += text;
  }
  return { at: -1, tokens: reference.texts.length };
}
