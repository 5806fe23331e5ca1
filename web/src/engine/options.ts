/** Checks what callers pass before it reaches the engine: names, with the nearest known one, and numbers. */
import catalog from "foretoken:catalog";
import { ForetokenError } from "../protocol/errors.ts";
import type { Limit } from "../protocol/protocol.ts";

/** Returns the error of an option or a field; `message` is the predicate. */
export function wrong(param: string, message: string): ForetokenError {
  return new ForetokenError("bad_option", `${param} ${message}`, param);
}

/** Returns names of a type; the record has the compiler ask for each. */
export const namesOf = <T>(all: Record<keyof T, true>): string[] => Object.keys(all);

/** Refuses names that are not known, unless they have no value. */
export function checkNames(given: object, known: readonly string[], note = ""): void {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || known.includes(name)) continue;
    const near = nearest(name, known);
    throw wrong(name, `is unknown${near ? `; did you mean ${near}?` : note}`);
  }
}

/** Returns the bounds of a field in Go's table, or undefined where they depend on the method. */
export function limitOf(field: string): Limit | undefined {
  return catalog.limits.find((limit) => limit.field === field);
}

/** Describes bounds as Go does. */
export function rangeOf({ least, most, zero }: Limit): string {
  return zero === undefined ? `${least} to ${most}` : `0 (${zero})${least ? ` or ${least}` : ""} to ${most}`;
}

/** Reports whether a number is within bounds. */
export function holds({ least, most, zero }: Limit, value: number): boolean {
  return (value >= least && value <= most) || (value === 0 && zero !== undefined);
}

/** Refuses a number beyond the limits of Go's table. */
export function checkLimit(field: string, value: unknown): asserts value is number {
  const limit = limitOf(field)!;
  if (typeof value === "number" && holds(limit, value)) return;
  throw wrong(field, `is ${typeof value === "number" ? value : typeName(value)}, want ${rangeOf(limit)}`);
}

/** Describes a value by its type, for messages. */
export function typeName(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? "a list" : `${typeof value === "object" ? "an" : "a"} ${typeof value}`;
}

/** Returns the known name that was probably meant, as Go's spec.Nearest does. */
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
