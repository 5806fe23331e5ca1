/** The settings of a request: their form fields, their attributes, and the methods that have them. */
import settings from "foretoken:settings";
import type { Config } from "../engine/methods.ts";
import { holds, limitOf, rangeOf } from "../engine/options.ts";
import type { Setting } from "../protocol/protocol.ts";

/** A setting with a field in the form. Its attribute has dashes instead of the name's underscores. */
export type Field = Setting & { label: string };

/** All fields in the order of the form. */
export const FIELDS = settings.filter((setting): setting is Field => setting.label !== undefined);

/** Returns the sort of a field's input. */
export function kindOf({ choices, type }: Setting): "choice" | "flag" | "number" | "shape" {
  if (choices) return "choice";
  return type.startsWith("boolean") ? "flag" : type === "number[][]" ? "shape" : "number";
}

/** Returns the value that a flag has by default. */
export const isOn = ({ unset }: Setting): boolean => unset === "on";

/** Returns the step of a number's arrows. */
export const stepOf = ({ step, whole }: Setting): number => step ?? (whole ? 1 : 0.01);

/** Returns whether a method has a setting. */
export function has(config: Config, { name, group, for: parts, except }: Setting): boolean {
  if (group === "sampling" || group === "filters") return true;
  if (config.drafter === "none") return false; // there is nothing to adapt or to verify
  if (group === "parts") return name !== "source" || config.uses_draft;
  if (except?.includes(config.adapt)) return false;
  return parts ? parts.includes(config.adapt) || parts.includes(config.verifier) : config.settings.includes(name);
}

/** Returns the attribute of a field: max_tokens becomes max-tokens. */
export function attributeOf(field: Pick<Setting, "name">): string {
  return field.name.replaceAll("_", "-");
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

/** The longest text of a setting; a tree's shape needs it. */
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
export function problemIn(field: Setting, text: string): string | undefined {
  switch (kindOf(field)) {
    case "number": {
      const value = text.length > 40 ? undefined : parseNumber(text);
      const limit = limitOf(field.name);
      const want = limit ? `; want ${rangeOf(limit)}` : "";
      if (value === undefined) return `is not a number${want}`;
      if (limit && !holds(limit, value)) return `is not ${rangeOf(limit)}`;
      return field.whole && !Number.isSafeInteger(value) ? `is not an integer of at most 2^53${want}` : undefined;
    }
    case "choice":
      return field.choices!.includes(text) ? undefined : `is not one of ${field.choices!.join(", ")}`;
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
