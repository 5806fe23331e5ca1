/** The settings of a request: their form fields, their attributes, and the methods that have them. */
import catalog from "foretoken:catalog";
import { type Config, takes } from "../engine/methods.ts";
import { holds, limitOf, rangeOf } from "../engine/options.ts";
import type { GenerateRequest } from "../protocol/protocol.ts";

type Key = Exclude<keyof GenerateRequest, "prompt" | "policy" | "stop" | "no_reuse">;

interface Common {
  /** The key in the request; the attribute has dashes instead of underscores. */
  key: Key;
  label: string;
  hint: string;
  /** The section of the form: the method, the sampling, or "combine", which changes the method's parts. */
  group: "method" | "sampling" | "combine";
  /** Whether a method has the setting; undefined if its drafter, adapter or verifier says so. */
  of?: ((config: Config) => boolean) | undefined;
}

interface NumberField extends Common {
  kind: "number";
  /** Of the arrows of the field; 1 for integers. */
  step: number;
  /** Describes the meaning of an empty field; undefined if the field starts with the value of the default request. */
  empty: ((config: Config) => string) | undefined;
}
export interface ChoiceField extends Common {
  kind: "choice";
  choices: readonly string[];
  /** The label of the first, empty choice. */
  empty: string;
}
export interface FlagField extends Common {
  kind: "flag";
  /** The default. */
  on: boolean;
}
export interface ShapeField extends Common {
  kind: "shape";
}
export type Field = NumberField | ChoiceField | FlagField | ShapeField;

const always = (): boolean => true;
const speculates = (c: Config): boolean => c.drafter !== "none";

function number(
  key: Key,
  label: string,
  hint: string,
  step: number,
  empty: NumberField["empty"],
  of?: Common["of"],
  group: Common["group"] = "method",
): NumberField {
  return { kind: "number", key, label, hint, step, of, empty, group };
}

const own =
  (key: "depth" | "top_k" | "nodes" | "ngram_max" | "ngram_min") =>
  (c: Config): string =>
    String(c[key]);
const byMethod = (): string => "the method's own";
const off = (): string => "off";

/** All fields in the order of the form. */
export const FIELDS: readonly Field[] = [
  number(
    "depth",
    "Depth",
    "Chains and n-grams: tokens drafted a round. Trees: draft passes after the first level",
    1,
    own("depth"),
  ),
  number("top_k", "Top-k", "Beams per level, and candidates of each beam", 1, own("top_k")),
  number(
    "nodes",
    "Nodes",
    "Nodes verified in one target pass, including the root",
    1,
    own("nodes"),
    (c) => takes(c, "nodes") && c.adapt !== "c2t",
  ),
  {
    kind: "shape",
    key: "shape",
    label: "Shape",
    hint: "The number of children of the node of each rank, level by level, as JSON",
    group: "method",
  },
  number(
    "ngram_max",
    "N-gram",
    "Tokens that must match; prompt lookup tries the longest first",
    1,
    own("ngram_max"),
  ),
  number("ngram_min", "N-gram, minimum", "The shortest n-gram that prompt lookup tries", 1, own("ngram_min")),
  number(
    "threshold",
    "Threshold",
    "Assisted: confidence. AdaEDL: bound. C2T: β. Acceptance head: h; empty derives it from measured costs",
    0.01,
    (c) => (c.adapt === "acceptance" ? "measured" : "the method's own"),
  ),
  number("lambda", "λ", "AdaEDL's λ", 0.01, byMethod),
  {
    kind: "choice",
    key: "schedule",
    label: "Schedule",
    hint: "heuristic: two tokens more after full acceptance, else one less",
    choices: catalog.schedules,
    empty: "default",
    group: "method",
  },
  {
    kind: "flag",
    key: "any",
    label: "Stop at any branch",
    hint: "Stop as soon as one branch is unlikely to be accepted, instead of all",
    on: false,
    group: "method",
  },
  {
    kind: "flag",
    key: "one_pruning",
    label: "One pruning",
    hint: "Leave out C2T's second pruning",
    on: false,
    group: "method",
  },
  number("alpha", "α ±", "Added to HeteroSpec's α", 1, () => "0"),
  {
    kind: "flag",
    key: "no_extension",
    label: "No extension",
    hint: "HeteroSpec without dynamic extended drafting",
    on: false,
    group: "method",
  },
  {
    kind: "flag",
    key: "no_pruning",
    label: "No pruning",
    hint: "HeteroSpec without top-N pruning",
    on: false,
    group: "method",
  },
  {
    kind: "flag",
    key: "no_adaptation",
    label: "No adaptation",
    hint: "HeteroSpec without programs prepared per bin",
    on: false,
    group: "method",
  },
  number(
    "theta",
    "θ",
    "MARS accepts the second token if its logit exceeds this fraction of the first's",
    0.01,
    byMethod,
  ),
  number("gap", "Gap", "MARS: the largest difference to the first's logit, in nats", 0.1, off),
  {
    kind: "choice",
    key: "mode",
    label: "Mode",
    hint: "MARS: emit the best token (alg1) or sample (sampled)",
    choices: catalog.modes,
    empty: "default",
    group: "method",
  },
  {
    kind: "choice",
    key: "variant",
    label: "Variant",
    hint: "How AdaSD computes its threshold",
    choices: catalog.variants,
    empty: "default",
    group: "method",
  },
  {
    kind: "flag",
    key: "carry",
    label: "Carry on",
    hint: "AdaSD keeps its thresholds for the next prompt",
    on: false,
    group: "method",
  },

  number("temperature", "Temperature", "0 is greedy", 0.1, undefined, always, "sampling"),
  number(
    "seed",
    "Seed",
    "With an exact method, the same seed gives the same text with and without speculation",
    1,
    undefined,
    always,
    "sampling",
  ),
  number(
    "max_tokens",
    "Max tokens",
    "The largest number of generated tokens",
    1,
    undefined,
    always,
    "sampling",
  ),

  {
    kind: "choice",
    key: "adapt",
    label: "Adapted by",
    hint: "The rule that adapts the draft from round to round",
    choices: catalog.adapts.map((a) => a.name),
    empty: "the method's own",
    of: speculates,
    group: "combine",
  },
  {
    kind: "choice",
    key: "source",
    label: "Drafted by",
    hint: "The draft model, or an EAGLE-3 head",
    choices: catalog.sources,
    empty: "the method's own",
    of: (c) => c.uses_draft,
    group: "combine",
  },
  {
    kind: "choice",
    key: "verifier",
    label: "Verified by",
    hint: "match is exact; rejection and without-replacement in distribution; mars and adasd are lossy",
    choices: catalog.verifiers.map((v) => v.name),
    empty: "the method's own",
    of: speculates,
    group: "combine",
  },
  {
    kind: "flag",
    key: "coupled",
    label: "Coupled",
    hint: "Above temperature 0, draft with the noise that the target samples with",
    on: true,
    of: speculates,
    group: "combine",
  },
  number(
    "top_k_sampling",
    "Sample top-k",
    "Sample from this many of the best tokens",
    1,
    off,
    always,
    "combine",
  ),
  number(
    "top_p",
    "Top-p",
    "Sample from the likeliest tokens that sum to this probability; 0 leaves only the likeliest one",
    0.01,
    off,
    always,
    "combine",
  ),
  number(
    "min_p",
    "Min-p",
    "Sample from tokens with at least this fraction of the best token's probability",
    0.01,
    off,
    always,
    "combine",
  ),
];

/** Returns whether a method has a setting. */
export function has(config: Config, field: Field): boolean {
  return field.of ? field.of(config) : takes(config, field.key);
}

/** Returns the attribute of a field: max_tokens becomes max-tokens. */
export function attributeOf(field: Pick<Field, "key">): string {
  return field.key.replaceAll("_", "-");
}

/** Parses a number; undefined if the text is not one. */
export function parseNumber(text: string): number | undefined {
  const value = text.trim() === "" ? NaN : Number(text);
  return Number.isFinite(value) ? value : undefined;
}

/** Parses a flag in any letter case; undefined if the text is none. An attribute without a value is set. */
export function parseFlag(text: string): boolean | undefined {
  const known = text.trim().toLowerCase();
  if (["", "true", "1", "yes"].includes(known)) return true;
  return ["false", "0", "no"].includes(known) ? false : undefined;
}

/** The longest text of a setting: that of a shape. */
const MOST_TEXT = 4096;

/** Parses the JSON of a tree's shape; undefined if empty or not a shape. */
export function parseShape(text: string): number[][] | undefined {
  try {
    const shape: unknown = JSON.parse(text.length > MOST_TEXT ? "" : text);
    const isLevel = (level: unknown): boolean =>
      Array.isArray(level) && level.length <= 1024 && level.every((n) => Number.isInteger(n) && n >= 0 && n <= 64);
    return Array.isArray(shape) && shape.length <= 64 && shape.every(isLevel) ? (shape as number[][]) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns why a text, of an attribute, an address or a link, is no value of a field, or undefined. */
export function problemIn(field: Field, text: string): string | undefined {
  switch (field.kind) {
    case "number": {
      const value = text.length > 40 ? undefined : parseNumber(text);
      const limit = limitOf(field.key);
      const want = limit ? `; want ${rangeOf(limit)}` : "";
      if (value === undefined) return `is not a number${want}`;
      if (limit && !holds(limit, value)) return `is not ${rangeOf(limit)}`;
      return field.step >= 1 && !Number.isSafeInteger(value) ? `is not an integer of at most 2^53${want}` : undefined;
    }
    case "choice":
      return field.choices.includes(text) ? undefined : `is not one of ${field.choices.join(", ")}`;
    case "flag":
      return text === attributeOf(field) || parseFlag(text) !== undefined
        ? undefined
        : "is neither true nor false; want true, 1 or yes, or false, 0 or no";
    case "shape":
      return parseShape(text) ? undefined : "is not a tree shape such as [[4],[2,1,1],[1]]";
  }
}

/** Quotes text for a message: short, and on one line. */
export function quote(text: string): string {
  const line = text.slice(0, 80).replace(/[\s\0-\x1f\x7f]+/g, " ");
  return JSON.stringify(line.length > 40 ? `${line.slice(0, 39)}…` : line);
}
