/** Checks what callers pass to the engine: names, with the nearest known one, types and numbers. Draws ids. */
import catalog from "foretoken:catalog";
import { ForetokenError } from "../protocol/errors.ts";
import type { Limit } from "../protocol/protocol.ts";

/** Returns the error of a field, or of a place in it such as `tools[0].type`; `message` is the predicate. */
export function wrong(place: string, message: string): ForetokenError {
  return new ForetokenError("bad_option", `${place} ${message}`, /^[^.]+/.exec(place)?.[0]);
}

/** Returns names of a type; the record has the compiler ask for each. */
export const namesOf = <T>(all: Record<keyof T, true>): string[] => Object.keys(all);

/**
 * Returns the members of an object that have a value. Refuses all but objects, and names beyond `known`, unless that is
 * left to the program. `within` names the object in errors; `note` follows an unknown name that is near to no other.
 */
export function membersOf<T extends object>(given: T, known?: readonly string[], within = "", note = ""): T {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw within
      ? wrong(within, `is ${typeName(given)}, want an object`)
      : new ForetokenError("bad_option", `the argument is ${typeName(given)}, want an object`);
  const members: Partial<T> = {};
  for (const name of Object.keys(given)) {
    const refuse = (why: string): never => {
      throw wrong(`${within && `${within}.`}${shown(name)}`, why);
    };
    let value: T[keyof T] | undefined;
    try {
      value = given[name as keyof T];
    } catch (cause) {
      refuse(`cannot be read: ${reasonOf(cause)}`); // it is a getter
    }
    if (value === undefined) continue;
    if (!known || known.includes(name)) members[name as keyof T] = value;
    else if (value !== null) {
      const near = nearest(name, known);
      refuse(`is unknown${near ? `; did you mean ${near}?` : note}`);
    }
  }
  return members as T;
}

/** Returns what a caller's code threw, for a message. */
export const reasonOf = (cause: unknown): string => shown(String((cause as Error | null)?.message ?? cause));

/** A check of a value, and a description of the values that pass. */
export type Check = readonly [want: string, accepts: (value: unknown) => boolean];

const isFunction = (value: unknown): boolean => typeof value === "function";
export const FLAG: Check = ["true or false", (value) => typeof value === "boolean"];
export const TEXT: Check = ["a string", (value) => typeof value === "string"];
export const FUNCTION: Check = ["a function", isFunction];
export const SIGNAL: Check = [
  "an AbortSignal",
  (value) => {
    const { aborted, addEventListener } = Object(value) as Partial<AbortSignal>;
    return typeof aborted === "boolean" && isFunction(addEventListener);
  },
];

/** Refuses fields of an object that do not pass their checks. Undefined and null pass: they count as absent. */
export function checkFields(given: object, checks: Readonly<Record<string, Check | undefined>>, within = ""): void {
  for (const [name, check] of Object.entries(checks)) {
    const value = (given as Record<string, unknown>)[name];
    if (value === undefined || value === null || !check || check[1](value)) continue;
    throw wrong(within ? `${within}.${name}` : name, `is ${typeName(value)}, want ${check[0]}`);
  }
}

/** Returns the bounds of a field in Go's table, or undefined where they depend on the method. */
export function limitOf(field: string): Limit | undefined {
  return catalog.limits.find(({ name }) => name === field);
}

/** Describes bounds as Go does. */
export function rangeOf({ least, most, zero }: Limit): string {
  const end = most === Number.MAX_VALUE ? "or more" : `to ${most}`;
  return zero === undefined ? `${least} ${end}` : `0 (${zero})${least ? ` or ${least}` : ""} ${end}`;
}

/** Reports whether a number is within bounds. */
export function holds({ least, most, zero }: Limit, value: number): boolean {
  return (value >= least && value <= most) || (value === 0 && zero !== undefined);
}

/** Refuses a number beyond the limits of Go's table, or others. */
export function checkLimit(field: string, value: unknown, limit = limitOf(field)!): asserts value is number {
  if (typeof value === "number" && holds(limit, value)) return;
  throw wrong(field, `is ${typeName(value)}, want ${rangeOf(limit)}`);
}

/** Shortens foreign text for messages, and quotes it unless it is a usual name. */
export function shown(text: string): string {
  if (/^[\w$-]{1,60}$/.test(text)) return text;
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 59)}…` : text);
}

/** Describes a value for messages: numbers and short texts as they are, others by their type. */
export function typeName(value: unknown): string {
  if (value === null || value === undefined || typeof value === "number") return String(value);
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 39)}…` : value);
  return Array.isArray(value) ? "a list" : `${typeof value === "object" ? "an" : "a"} ${typeof value}`;
}

/** Returns the known name that was probably meant, as Go's internal/hint.Nearest does. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const plain = (text: string): string => text.replace(/[-_]/g, "").toLowerCase();
  const asked = plain(name);
  if (asked.length < 2 || asked.length > 64) return undefined;
  const most = Math.max(1, Math.floor(asked.length / 3));
  let best: string | undefined;
  let least = most + 1;
  for (const candidate of known) {
    const other = plain(candidate);
    let distance = editDistance(asked, other);
    if (asked.length >= 4 && other.startsWith(asked)) distance = Math.min(distance, most);
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/** Counts insertions, deletions, replacements and exchanges of neighbours. */
function editDistance(a: string, b: string): number {
  let [before, above]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(above[j]! + 1, row[j - 1]! + 1, above[j - 1]! + cost);
      const exchanged = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (exchanged) row[j] = Math.min(row[j]!, before[j - 2]! + 1);
    }
    [before, above] = [above, row];
  }
  return above[b.length]!;
}

/** Returns 32 random hexadecimal digits. crypto.randomUUID exists on secure pages only. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
