/** Sums up repetitions and compares texts. */

/** The middle one, or the mean of the two middle ones. */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * What the driver saw of one decode, from asking to the end: milliseconds to the
 * first tokens, and tokens a second after them ("decode") and from the start ("whole").
 * A decode that brought nothing after its first tokens has no decode rate. Where word of
 * the first tokens came late, by the page's own clock (`sinceFirst` milliseconds of it
 * were left), only the rate from the start is known.
 */
export function rates({ asked, first, end, sinceFirst, tokens, firstTokens }) {
  const later = tokens - firstTokens;
  const late = end - first < 0.8 * sinceFirst;
  return {
    ttft_ms: late ? null : first - asked,
    decode_tok_s: later > 0 && end > first && !late ? (later * 1000) / (end - first) : null,
    whole_tok_s: (tokens * 1000) / (end - asked),
  };
}

/** Median, least and most of each rate over repetitions; null where none has it. */
export function summary(runs) {
  const of = (key) => {
    const values = runs.map((run) => run[key]).filter((value) => value !== null);
    return values.length ? { median: median(values), min: Math.min(...values), max: Math.max(...values), n: values.length } : null;
  };
  return { ttft_ms: of("ttft_ms"), decode_tok_s: of("decode_tok_s"), whole_tok_s: of("whole_tok_s") };
}

/**
 * Where an engine's output leaves the reference's: by token ids where it gives them,
 * by text where it does not. `reference` has `ids` and `texts` (a token each);
 * `at` is the index of the first other token, or -1, `tokens` how many could be compared.
 * An output that ended early agrees as far as it goes.
 */
export function agreement(reference, output) {
  if (output.ids) {
    const tokens = Math.min(reference.ids.length, output.ids.length);
    for (let i = 0; i < tokens; i++) if (reference.ids[i] !== output.ids[i]) return { at: i, tokens };
    return { at: -1, tokens };
  }
  let seen = "";
  for (const [i, text] of reference.texts.entries()) {
    const known = output.text.slice(seen.length, seen.length + text.length);
    if (!text.startsWith(known)) return { at: i, tokens: i + 1 };
    if (known.length < text.length) return { at: -1, tokens: i };
    seen += text;
  }
  return { at: -1, tokens: reference.texts.length };
}
