/**
 * Copies callers' values to values that JSON can carry. Every message to the worker goes through {@link textOf}, which
 * refuses a value that JSON would drop or change, and names its field.
 */
import { ForetokenError } from "../protocol/errors.ts";
import type { JSONText } from "../protocol/protocol.ts";
import { limitOf, rangeOf, reasonOf, shown, typeName } from "./options.ts";

/** The largest number of values in a request, and the deepest nesting. */
const VALUES = 100_000;
const DEPTH = 250;

/** Half of a surrogate pair without the other half. */
const HALF = /\p{Surrogate}/u;

/**
 * Returns a deep copy of plain objects, lists, strings, finite numbers, booleans and nulls, without members that are
 * undefined. A BigInt becomes a number, or stays one where a number would lose digits; an object with toJSON, such as a
 * Date, becomes the value that it returns. Throws `bad_option` for all else. `field` names the value in errors; without
 * it, the value's members are the fields.
 */
export function plain<T>(given: T, field = ""): T {
  let values = 0;
  const above = new Set<unknown>();
  const copy = (value: unknown, path: string, field: string, ofJSON = false): unknown => {
    const refuse = (why: string): never => {
      throw new ForetokenError("bad_option", `${path || "the argument"} ${why}`, field || undefined);
    };
    if (++values > VALUES) {
      const of = field || "the argument";
      const text = `${of} has more than ${VALUES} values, counted over all fields: the most that one request holds`;
      throw new ForetokenError("bad_option", text, field || undefined);
    }
    switch (typeof value) {
      case "boolean":
        return value;
      case "string":
        return HALF.test(value) ? refuse("contains half of a surrogate pair; want whole characters") : value;
      case "number": {
        if (Number.isFinite(value)) return value;
        const limit = limitOf(path);
        return refuse(`is ${value}, want ${limit ? rangeOf(limit) : "a finite number"}`);
      }
      case "bigint":
        if (Number.isSafeInteger(Number(value))) return Number(value);
        return Number.isFinite(Number(value)) ? value : refuse("is a BigInt beyond all numbers");
      case "object":
        break;
      default:
        return refuse(`is ${typeName(value)}, which JSON cannot carry`);
    }
    if (value === null) return null;
    if (above.has(value)) refuse("contains itself");
    if (above.size >= DEPTH) refuse(`is nested more than ${DEPTH} levels deep`);
    try {
      // Reading may run the caller's code: members may be getters, and the object a proxy.
      const { toJSON } = value as { toJSON?: unknown };
      if (typeof toJSON === "function" && !ofJSON) return copy(toJSON.call(value), path, field, true);
      const list = Array.isArray(value);
      const kind = Object.prototype.toString.call(value).slice("[object ".length, -1);
      if (!list && kind !== "Object") refuse(`is an object of the type ${shown(kind)}; want a plain one, or a list`);
      above.add(value);
      if (list)
        return Array.from(value as unknown[], (item, i) => {
          const at = `${path}[${i}]`;
          return item === undefined ? refuse(`has no value at ${i}`) : copy(item, at, field);
        });
      const to: Record<string, unknown> = {};
      for (const key of Object.keys(value)) {
        if (HALF.test(key)) refuse("has a name with half of a surrogate pair; want whole characters");
        const item = (value as Record<string, unknown>)[key];
        if (item === undefined) continue;
        const copied = copy(item, path ? `${path}.${shown(key)}` : shown(key), field || key);
        // Defines a member even for the name __proto__, which an assignment would take as the prototype.
        Object.defineProperty(to, key, { value: copied, enumerable: true, configurable: true, writable: true });
      }
      return to;
    } catch (cause) {
      if (cause instanceof ForetokenError) throw cause;
      return refuse(`cannot be read: ${reasonOf(cause)}`);
    } finally {
      above.delete(value);
    }
  };
  return copy(given, field, field) as T;
}

/** Returns the JSON text of a value; see {@link plain}. BigInts have all their digits. */
export function textOf(value: unknown, field = ""): JSONText {
  const write = (of: unknown): string => {
    if (typeof of === "bigint") return String(of);
    if (typeof of !== "object" || of === null) return JSON.stringify(of);
    if (Array.isArray(of)) return `[${of.map(write).join()}]`;
    const members = Object.entries(of).map(([name, member]) => `${JSON.stringify(name)}:${write(member)}`);
    return `{${members.join()}}`;
  };
  return write(plain(value, field)) as JSONText;
}
