/** The prompts that fit a model, and the rules that end their texts. */
import chosen from "foretoken:examples";
import { isBuiltin } from "../engine/builtin.ts";
import type { EngineInfo, GenerateRequest } from "../protocol/protocol.ts";
import { EXAMPLES, type Example } from "./examples.ts";

/** Prompts, and how they were chosen. */
export interface Offer {
  examples: readonly Example[];
  chosen?: string;
}

const CHOSEN =
  `The first ${chosen.examples.length} that pass among ${chosen.tried} functions, given by comment and head in an ` +
  "order that nobody chose. They were written after the model was trained, and no line of them stands in Go's own " +
  `sources. ${chosen.passed} (${Math.round((100 * chosen.passed) / chosen.tried)} %) pass: the function ends within ` +
  "64 tokens, has seven lines or more, reads each parameter, does not call itself, repeats no line, parses, " +
  "type-checks and passes go vet. No rule asks whether it does what its comment says: a model of this size rarely " +
  "knows.";

const CODE: readonly Example[] = [
  {
    title: "Python",
    prompt: 'def is_leap_year(year: int) -> bool:\n    """Return whether a year has 366 days."""\n',
    stop: "\n\n",
  },
  {
    title: "JavaScript",
    prompt: "/** Returns the words of a text, the longest first. */\nfunction longestWords(text) {\n",
    stop: "\n}\n",
  },
  { title: "SQL", prompt: "-- The ten customers with the most orders of the last year.\nSELECT", stop: ";" },
];

const CHAT: readonly Example[] = [
  { title: "Blue sky", prompt: "Question: Why is the sky blue?\nAnswer:", stop: "\n\n" },
  { title: "Bread", prompt: "Question: How is bread made?\nAnswer:", stop: "\n\n" },
  { title: "Two cities", prompt: "Question: What do Lisbon and San Francisco have in common?\nAnswer:", stop: "\n\n" },
];

const BASE: readonly Example[] = [
  { title: "Story", prompt: "The lighthouse keeper had not spoken to anyone for a month when" },
  { title: "Article", prompt: "The printing press changed Europe in three ways. First," },
  { title: "Recipe", prompt: "Pancakes for four people\n\nIngredients:\n-" },
];

/** Prompts for the built-in pair. */
export const BUILTIN: Offer = { examples: EXAMPLES, chosen: CHOSEN };

/** Returns the prompts that fit the loaded target, by its template and its tokenizer. */
export function offerFor(info: EngineInfo): Offer {
  if (isBuiltin(info)) return BUILTIN;
  return { examples: info.code ? CODE : info.chat.ok ? CHAT : BASE };
}

/** Whether a prompt is an example, as it is offered. */
export const isExample = (prompt: string): boolean => exampleOf(prompt) !== undefined;

const exampleOf = (prompt: string): Example | undefined =>
  [...EXAMPLES, ...CODE, ...CHAT, ...BASE].find((example) => example.prompt === prompt);

/** Returns the part of a request that ends the text of an example by the example's rule; {} for other prompts. */
export function endOf(prompt: string): Pick<GenerateRequest, "stop" | "include_stop_str_in_output"> {
  const stop = exampleOf(prompt)?.stop;
  return stop === undefined ? {} : { stop: [stop], include_stop_str_in_output: true };
}

/** Returns questions that fit the loaded target, and a sentence before them. */
export function questionsFor(info: EngineInfo): { about: string; questions: readonly string[] } {
  if (isBuiltin(info))
    return {
      about: "The built-in model is a toy that knows Go's library a little, and is often wrong. Ask it:",
      questions: ["What does strings.Fields do?", "Which package reads zip files?", "Write a table test for Abs."],
    };
  return {
    about: "Ask the model, for example:",
    questions: info.code
      ? ["Reverse a linked list in Python.", "What is a mutex?", "Write a regular expression for dates."]
      : ["Why is the sky blue?", "Write four lines about rain.", "Explain compound interest by an example."],
  };
}
