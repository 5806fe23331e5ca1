/** The keywords of JSON Schema that random schemas use, and where schemas stand within schemas. */

/** The drafts, and what names each; a schema of the last one names none. */
export const DRAFTS = {
  4: "http://json-schema.org/draft-04/schema#",
  7: "http://json-schema.org/draft-07/schema#",
  "2019-09": "https://json-schema.org/draft/2019-09/schema",
  "2020-12": "https://json-schema.org/draft/2020-12/schema",
  none: undefined,
};

/**
 * Keywords by the type of the values that they assert of, with the drafts that have them and where ajv and the standard
 * agree. ajv holds to dependencies in all drafts, the standard up to 7. In 2020-12 additionalItems is an annotation to
 * both. Without $schema, ajv's 2020-12 is the measure.
 */
const ALL = ["4", "7", "2019-09", "2020-12", "none"];
const SINCE7 = ALL.slice(1);
const SINCE2019 = ALL.slice(2);
const KEYWORDS = {
  any: {
    ...{ type: ALL, enum: ALL, const: SINCE7, allOf: ALL, anyOf: ALL, oneOf: ALL, not: ALL },
    ...{ if: SINCE7, then: SINCE7, else: SINCE7, $ref: ALL, $defs: ALL, $id: ALL, $anchor: SINCE2019 },
  },
  number: { multipleOf: ALL, maximum: ALL, exclusiveMaximum: ALL, minimum: ALL, exclusiveMinimum: ALL },
  string: { maxLength: ALL, minLength: ALL, pattern: ALL, format: ALL },
  array: {
    ...{ items: ALL, additionalItems: ["4", "7", "2019-09", "2020-12"], prefixItems: ["2020-12", "none"] },
    ...{ contains: SINCE7, minContains: SINCE2019, maxContains: SINCE2019 },
    ...{ maxItems: ALL, minItems: ALL, uniqueItems: ALL, unevaluatedItems: SINCE2019 },
  },
  object: {
    ...{ maxProperties: ALL, minProperties: ALL, required: ALL, properties: ALL, patternProperties: ALL },
    ...{ additionalProperties: ALL, propertyNames: SINCE7, dependencies: ["4", "7", "none"] },
    ...{ dependentRequired: SINCE2019, dependentSchemas: SINCE2019, unevaluatedProperties: SINCE2019 },
  },
};

export const TYPES = ["string", "number", "array", "object"];

/** The keywords of a draft that assert of values of a type, or "any". */
export function keywordsOf(draft, about) {
  return Object.entries(KEYWORDS[about]).flatMap(([name, drafts]) => (drafts.includes(draft) ? [name] : []));
}

const every = Object.fromEntries(ALL.map((of) => [of, ["any", ...TYPES].flatMap((about) => keywordsOf(of, about))]));

/** All keywords of a draft. */
export const allKeywords = (draft) => every[draft];

/** The type whose values a keyword asserts of, or "any". */
export const aboutOf = (keyword) => Object.keys(KEYWORDS).find((about) => keyword in KEYWORDS[about]) ?? "any";

/** Up to draft 7 nothing beside $ref counts. */
export const siblingsOfRef = (draft) => draft !== "4" && draft !== "7";

/** The name that a keyword has in a draft. */
export function spelled(keyword, draft) {
  if (keyword === "$id" && draft === "4") return "id";
  if (keyword === "$defs" && !siblingsOfRef(draft)) return "definitions";
  return keyword;
}

/** Keywords whose value is a schema, a list of them, or an object of them, or (dependencies, items) may be. */
const ONE = ["not", "if", "then", "else", "contains", "additionalItems", "unevaluatedItems", "additionalProperties"];
const INSIDE = {
  ...Object.fromEntries([...ONE, "propertyNames", "unevaluatedProperties"].map((name) => [name, "one"])),
  ...{ allOf: "list", anyOf: "list", oneOf: "list", prefixItems: "list", items: "either" },
  ...{ properties: "map", patternProperties: "map", dependencies: "map", dependentSchemas: "map" },
  ...{ $defs: "map", definitions: "map" },
};

/** Keywords whose schemas assert of the value itself. */
export const IN_PLACE = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];

/** The schemas right inside a schema, as [path from it, schema]. */
export function inside(schema) {
  if (typeof schema !== "object" || schema === null) return [];
  return Object.entries(schema).flatMap(([keyword, value]) => {
    const kind = INSIDE[keyword];
    if (!kind) return [];
    if (kind === "one" || (kind === "either" && !Array.isArray(value))) return [[[keyword], value]];
    return Object.entries(value ?? {}).flatMap(([key, one]) => (Array.isArray(one) ? [] : [[[keyword, key], one]]));
  });
}

/** All schemas of a schema, with itself. */
export const within = (schema) => [schema, ...inside(schema).flatMap(([, one]) => within(one))];

/** The pairs of keywords that stand beside each other, as "a b"; true and false are schemas right inside. */
export function pairsIn(schema) {
  const pairs = new Set();
  for (const one of within(schema)) {
    const bools = inside(one).flatMap(([, sub]) => (typeof sub === "boolean" ? [String(sub)] : []));
    for (const pair of pairsOf([...new Set([...Object.keys(one).map(general), ...bools])])) pairs.add(pair);
  }
  return pairs;
}

const general = (name) => ({ id: "$id", definitions: "$defs" })[name] ?? name;

/** All pairs of a list, each in the order of the alphabet. */
export function pairsOf(names) {
  const sorted = [...names].sort();
  return sorted.flatMap((a, i) => sorted.slice(i + 1).map((b) => `${a} ${b}`));
}

/** The pairs that a draft can have. */
export function pairsOfDraft(draft) {
  const names = allKeywords(draft).filter((name) => name !== "$ref" || siblingsOfRef(draft));
  return pairsOf([...names, ...(draft === "4" ? [] : ["true", "false"])]);
}

/** The schema that a reference within the document leads to; undefined where it leads nowhere. */
export function resolve(root, ref) {
  if (ref === "#" || ref === root.$id || ref === root.id) return root;
  const pointer = ref.slice(ref.indexOf("#") + 1);
  if (ref.includes("#/"))
    return pointer
      .split("/")
      .slice(1)
      .map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"))
      .reduce((at, key) => at?.[key], root);
  const named = (one) => [one.$id, one.id].includes(ref) || (ref[0] === "#" && one.$anchor === ref.slice(1));
  return within(root).find((one) => typeof one === "object" && named(one));
}
