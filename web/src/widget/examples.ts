/** The prompts that the widget offers with the built-in pair. */
import chosen from "foretoken:examples";

/** A prompt, with the rule that ends its text. */
export interface Example {
  title: string;
  prompt: string;
  /** The text ends after this string; missing: at the end of the text or by its length. */
  stop?: string;
}

/** Functions for the built-in pair, which cmd/examples chose by rule from a list. */
export const EXAMPLES: readonly Example[] = chosen.examples;
