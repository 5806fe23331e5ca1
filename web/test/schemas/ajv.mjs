/**
 * ajv for each draft, with the options that make it assert as the standard does, and without faults of ajv that random
 * schemas find: unevaluatedItems and unevaluatedProperties where a schema in place of another may fail (anyOf, oneOf,
 * if, dependentSchemas) or beside contains, keywords beside a tuple, contains of an empty array after another array.
 */
import Ajv from "ajv";
import Ajv4 from "ajv-draft-04";
import Ajv2019 from "ajv/dist/2019.js";
import Ajv2020 from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { inside, resolve } from "./keywords.mjs";

/**
 * Unknown keywords and formats are ignored. Patterns have the flag u. Quotients count as whole up to a rounding error:
 * 0.3 is a multiple of 0.1.
 */
export const OPTIONS = {
  ...{ strict: false, allErrors: false, unicodeRegExp: true, multipleOfPrecision: 9, logger: false },
  code: { optimize: false },
};

const CLASSES = { 4: Ajv4, 7: Ajv, "2019-09": Ajv2019, "2020-12": Ajv2020, none: Ajv2020 };
const made = {};

/** Of each schema within one that ajv was given: the root, the draft, and what says whether a value passes it. */
const homes = new WeakMap();

/** A function that says whether a value passes the schema. Throws where the schema is none of the draft. */
export function validator(schema, draft) {
  const ajv = (made[draft] ??= make(draft));
  const root = structuredClone(schema);
  const key = root.$id ?? root.id ?? "https://example.test/schema";
  try {
    const validate = ajv.addSchema(root, key).getSchema(key);
    const parts = JSON.stringify(root).includes('"unevaluated') ? pointers(root) : [];
    for (const [at, part] of parts)
      homes.set(part, { root, draft, passes: at === "" ? validate : ajv.getSchema(`${key}#${at}`) });
    return validate;
  } finally {
    ajv.removeSchema();
  }
}

/** All schemas of a schema that are objects, as [JSON Pointer in a URI, schema]. */
function pointers(schema, at = "") {
  const escape = (part) => encodeURIComponent(String(part).replaceAll("~", "~0").replaceAll("/", "~1"));
  const below = inside(schema).filter(([, one]) => typeof one === "object");
  return [[at, schema], ...below.flatMap(([keys, one]) => pointers(one, [at, ...keys.map(escape)].join("/")))];
}

function make(draft) {
  const ajv = new (CLASSES[draft].default ?? CLASSES[draft])(OPTIONS);
  (addFormats.default ?? addFormats)(ajv, { mode: "full" });
  mend(ajv, draft);
  if (ajv.opts.unevaluated) defineUnevaluated(ajv);
  return ajv;
}

/** Mends how ajv writes code of tuples and of contains. */
function mend(ajv, draft) {
  const change = (keyword, make) => {
    const definition = ajv.getKeyword(keyword);
    const { code } = definition;
    if (code) definition.code = (context) => code(Object.create(context, make(context)));
  };
  // After a tuple that is longer than the array, ajv would skip the keywords that follow: ok says whether to go on.
  const goesOn = { ok: { value: () => {} } };
  change("items", () => goesOn);
  if (ajv.getKeyword("prefixItems")) change("prefixItems", () => goesOn);
  // Without a bound, ajv would take the verdict on another array for that on an empty one.
  if (draft === "4") return;
  ajv.opts.next = true; // heeds maxContains
  change("contains", ({ parentSchema }) => ({ parentSchema: { value: { maxContains: 1e9, ...parentSchema } } }));
}

/** Defines unevaluatedItems and unevaluatedProperties by what the schemas in place look at. */
function defineUnevaluated(ajv) {
  ajv.opts.unevaluated = false;
  for (const [keyword, type] of [
    ["unevaluatedItems", "array"],
    ["unevaluatedProperties", "object"],
  ]) {
    const validate = (rest, value, schema) => {
      const looked = lookedAt(value, { ...schema, [keyword]: undefined }, homes.get(schema));
      return Object.keys(value).every((key) => looked.includes(key) || passes(rest, value[key]));
    };
    ajv.removeKeyword(keyword);
    ajv.addKeyword({ keyword, type, schemaType: ["boolean", "object"], errors: false, validate });
  }
}

const passes = (schema, value) => (typeof schema === "boolean" ? schema : homes.get(schema).passes(value));

/** The places of the items, or the names of the properties, that a schema looks at in a value that passes it. */
function lookedAt(value, schema, home) {
  if (typeof schema !== "object") return [];
  const looks = Array.isArray(value) ? looksAtItem : looksAtMember;
  const own = Object.keys(value).filter((key) => looks(schema, key, value[key], home));
  return [...own, ...inPlace(value, schema, home).flatMap((one) => lookedAt(value, one, home))];
}

function looksAtItem(schema, i, item, { draft }) {
  const { items, prefixItems = [], contains } = schema;
  const tuple = Array.isArray(items) ? items : prefixItems;
  const rest = Array.isArray(items) ? schema.additionalItems : items;
  if (i < tuple.length || rest !== undefined || schema.unevaluatedItems !== undefined) return true;
  return contains !== undefined && draft !== "2019-09" && passes(contains, item);
}

function looksAtMember(schema, name) {
  if (schema.additionalProperties !== undefined || schema.unevaluatedProperties !== undefined) return true;
  if (Object.hasOwn(schema.properties ?? {}, name)) return true;
  return Object.keys(schema.patternProperties ?? {}).some((pattern) => new RegExp(pattern, "u").test(name));
}

/** The schemas in place of one that a value passes. */
function inPlace(value, schema, { root }) {
  const all = [...(schema.allOf ?? [])];
  if (schema.$ref !== undefined) all.push(resolve(root, schema.$ref));
  for (const one of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) if (passes(one, value)) all.push(one);
  if (schema.if !== undefined && passes(schema.if, value)) all.push(schema.if, schema.then);
  else if (schema.if !== undefined) all.push(schema.else);
  const follows = Array.isArray(value) ? {} : { ...schema.dependentSchemas, ...schema.dependencies };
  return [...all, ...Object.entries(follows).flatMap(([name, one]) => (Object.hasOwn(value, name) ? [one] : []))];
}
