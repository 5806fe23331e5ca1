/** Random schemas, in which any two keywords of a draft stand beside each other about as often. */
import { aboutOf, allKeywords, DRAFTS, IN_PLACE, keywordsOf, pairsOf } from "./keywords.mjs";
import { siblingsOfRef, spelled, TYPES } from "./keywords.mjs";
import { FORMATS, NAMES } from "./random.mjs";

const BASE = "https://example.test/";
const DEPTH = 3;

const PAIRS = pairsOf([...new Set(Object.keys(DRAFTS).flatMap(allKeywords))]).map((pair) => pair.split(" "));

/** The keywords of a draft that count beside others. */
const joined = (draft) => allKeywords(draft).filter((name) => name !== "$ref" || siblingsOfRef(draft));

/**
 * A random schema, and the draft that it is of: each pair of keywords is as likely to stand at its root as another, and
 * then each draft that has both. `pools` are those that its values are drawn from.
 */
export function randomSchema(random, pools) {
  let [pair, drafts] = [[], []];
  while (drafts.length === 0) {
    pair = random.pick(PAIRS);
    drafts = Object.keys(DRAFTS).filter((draft) => pair.every((name) => joined(draft).includes(name)));
  }
  const draft = random.pick(drafts);
  return { draft, schema: new Maker(random, pools, draft).root(pair) };
}

/**
 * The place in another one, where a schema is made: its path as a JSON Pointer, the depth that is left, the type of
 * values that it is about, the schema around it that a reference may lead back to and whether this stands in place of
 * that, whether it may refer to others (not below an $id, from which fragments are resolved), and whether others may
 * refer to it by an $anchor.
 */
function below(place, keys, more) {
  const path = keys.map((key) => `/${encodeURIComponent(String(key).replaceAll("~", "~0").replaceAll("/", "~1"))}`);
  return { ...place, path: place.path + path.join(""), depth: place.depth - 1, inPlace: false, ...more };
}

class Maker {
  #targets = []; // references to schemas that are made
  #defs = {};
  #named = 0;

  constructor(random, pools, draft) {
    Object.assign(this, { random, pools, draft });
  }

  root(pair) {
    const { random, draft } = this;
    const about = random.pick(TYPES);
    const place = { path: "#", depth: DEPTH, about, self: "#", inPlace: true, refers: true, anchors: true };
    const more = random.some(random.chance(0.7) ? keywordsOf(draft, about) : joined(draft), random.below(3));
    const first = pair.map(aboutOf).find((type) => type !== "any");
    if (first && random.chance(0.8)) place.about = first;
    const made = this.#object(place, [...new Set([...pair, ...more])]);
    if (Object.keys(this.#defs).length > 0) Object.assign((made[spelled("$defs", draft)] ??= {}), this.#defs);
    return DRAFTS[draft] ? { $schema: DRAFTS[draft], ...made } : made;
  }

  /** A schema at a place below the root. */
  schema(place, bool = 0.12) {
    const { random, draft } = this;
    if (draft !== "4" && random.chance(bool)) return random.chance(0.6);
    const leaf = place.depth <= 0;
    const own = keywordsOf(draft, place.about);
    const from = random.chance(0.7) ? own : random.chance(0.6) ? keywordsOf(draft, "any") : allKeywords(draft);
    const names = random.some(from, random.pick(leaf ? [1, 1, 2] : [1, 1, 2, 2, 3]));
    if (random.chance(0.5)) names.push("type");
    if (leaf && random.chance(0.3)) names.push("enum");
    const made = this.#object(
      place,
      [...new Set(names)].filter((name) => !leaf || !HOLDERS.includes(name)),
    );
    if (place.refers && !JSON.stringify(made).includes('"$ref"'))
      this.#targets.push(made.$anchor && !made.$id && place.anchors ? `#${made.$anchor}` : place.path);
    return made;
  }

  #object(place, names) {
    const { random, draft } = this;
    if (!place.refers) names = names.filter((name) => name !== "$ref");
    if (names.includes("$ref") && !siblingsOfRef(draft)) names = ["$ref"];
    else names = random.shuffle([...new Set(names.flatMap((name) => [name, ...this.#company(name)]))]);
    if (names.includes("$id") && place.path !== "#") place = { ...place, refers: false };
    if (!place.refers) names = names.filter((name) => name !== "$ref");
    const known = allKeywords(draft);
    const made = {};
    for (const name of names) if (known.includes(name)) made[spelled(name, draft)] = MAKE[name](this, place, made);
    return made;
  }

  /** Keywords that one says little without, most of the time. */
  #company(name) {
    const { random, draft } = this;
    if (draft === "4" && name.startsWith("exclusive")) return [name.endsWith("Maximum") ? "maximum" : "minimum"];
    if (random.chance(0.3)) return [];
    if (name === "then" || name === "else") return ["if"];
    if (name === "if") return [random.pick(["then", "else"])];
    if (name.endsWith("Contains")) return ["contains"];
    if (name === "additionalItems") return ["items"];
    if (name === "additionalProperties" || name === "unevaluatedProperties") return ["properties"];
    if (name === "uniqueItems") return [random.pick(["maxItems", "items"])];
    return [];
  }

  /** A schema in the place of the one that is made, mostly about the same type. */
  here(place, keys, bool) {
    const about = this.random.chance(0.8) ? place.about : this.random.pick(TYPES);
    return this.schema(below(place, keys, { about, inPlace: place.inPlace }), bool);
  }

  /** A schema of a value inside. */
  part(place, keys, bool) {
    return this.schema(below(place, keys, { about: this.random.pick(TYPES) }), bool);
  }

  list(place, keyword, least, most) {
    const inPlace = IN_PLACE.includes(keyword);
    return Array.from({ length: least + this.random.below(most - least + 1) }, (_, i) =>
      inPlace ? this.here(place, [keyword, i], 0.04) : this.part(place, [keyword, i]),
    );
  }

  map(place, keyword, names) {
    const inPlace = IN_PLACE.includes(keyword);
    const make = (name) => (inPlace ? this.here(place, [keyword, name]) : this.part(place, [keyword, name]));
    return Object.fromEntries(names.map((name) => [name, make(name)]));
  }

  /** A schema of the values inside that others leave: mostly false. */
  extra(place, keyword) {
    if (this.random.chance(0.55)) return this.random.chance(0.2);
    return this.part(place, [keyword]);
  }

  names(least, most) {
    return this.random.some(NAMES, least + this.random.below(most - least + 1));
  }

  between(least, most) {
    return least + this.random.below(most - least + 1);
  }

  /** A value of the type that a schema is about, or any. */
  value(place) {
    const { random, pools } = this;
    if (random.chance(0.2)) return pools.value(1);
    if (place.about === "string") return pools.text();
    if (place.about === "number") return pools.number();
    if (place.about === "array") return Array.from({ length: random.below(3) }, () => pools.scalar());
    return Object.fromEntries(this.names(0, 2).map((name) => [name, pools.scalar()]));
  }

  anchor() {
    return `n${this.#named++}`;
  }

  id(place) {
    return place.path === "#" ? `${BASE}root` : `${BASE}${this.anchor()}`;
  }

  /** A reference to a schema that is made, to one around this, or to a new one among the definitions. */
  reference(place) {
    const { random } = this;
    if (!place.inPlace && random.chance(0.25)) return place.self;
    if (this.#targets.length > 0 && random.chance(0.4)) return random.pick(this.#targets);
    return this.#define(place);
  }

  #define(place) {
    const { random, draft } = this;
    const by = random.pick(["path", "path", "id", siblingsOfRef(draft) ? "anchor" : "fragment"]);
    // ajv finds no $id below a name with %.
    const name = `d${this.#named++}${by === "path" ? random.pick(["", "", " x", "/y", "~z", "%25"]) : ""}`;
    const root = { path: "#", depth: place.depth, about: place.about, refers: true, anchors: true };
    const at = below(root, [spelled("$defs", draft), name], { inPlace: true });
    at.self = at.path;
    if (by === "id") at.refers = false;
    this.#defs[name] = {}; // counts while the schema is made
    const made = this.schema(at, 0);
    this.#defs[name] = made;
    const id = spelled("$id", draft);
    if (by === "path" || made.$ref || made[id] || made.$anchor) {
      this.#targets.push(at.path);
      return at.path;
    }
    const anchor = this.anchor();
    if (by === "anchor") made.$anchor = anchor;
    else made[id] = by === "id" ? BASE + anchor : `#${anchor}`;
    const ref = by === "id" ? BASE + anchor : `#${anchor}`;
    this.#targets.push(ref);
    return ref;
  }
}

/** Keywords that hold schemas, which the innermost schemas lack. */
const HOLDERS = [
  ...["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "$defs", "items", "additionalItems"],
  ...["prefixItems", "contains", "unevaluatedItems", "properties", "patternProperties", "additionalProperties"],
  ...["propertyNames", "dependencies", "dependentSchemas", "unevaluatedProperties"],
];

const lists = (m) => Object.fromEntries(m.names(1, 2).map((name) => [name, m.names(m.draft === "4" ? 1 : 0, 2)]));

/** What draws the value of each keyword. */
const MAKE = {
  type: (m, place) => {
    const about = place.about === "number" && m.random.chance(0.4) ? "integer" : place.about;
    if (m.random.chance(0.7)) return about;
    return [...new Set([about, ...m.random.some([...TYPES, "integer", "boolean", "null"], 1 + m.random.below(2))])];
  },
  enum: (m, place) => {
    const values = Array.from({ length: m.between(1, 5) }, () => m.value(place));
    return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
  },
  const: (m, place) => m.value(place),
  multipleOf: (m) => m.random.pick([1, 2, 3, 4, 5, 7, 10, 100, 0.5, 0.25, 2.5, 0.1, 0.01]),
  maximum: (m) => m.random.pick([0, 1, 3, 5, 7.5, 10, 12, 20, 99.99, 1000]),
  minimum: (m) => m.random.pick([-100, -10, -2.5, -1, 0, 0.5, 1, 2, 5]),
  exclusiveMaximum: (m) => m.draft === "4" || m.random.pick([1, 3, 5.5, 10, 20, 100]),
  exclusiveMinimum: (m) => m.draft === "4" || m.random.pick([-10, -1, -0.5, 0, 1, 2, 4]),
  maxLength: (m) => m.between(0, 6),
  minLength: (m) => m.between(0, 4),
  pattern: (m) => m.pools.pattern(),
  format: (m) => m.random.pick(Object.keys(FORMATS)),
  items: (m, place) => {
    const tuples = m.draft !== "2020-12" && m.draft !== "none";
    return tuples && m.random.chance(0.5) ? m.list(place, "items", 1, 3) : m.part(place, ["items"]);
  },
  // In 2020-12 no schema, so no reference leads there.
  additionalItems: (m, place) =>
    m.extra({ ...place, refers: place.refers && m.draft !== "2020-12" }, "additionalItems"),
  // ajv finds no $anchor there.
  prefixItems: (m, place) => m.list({ ...place, anchors: false }, "prefixItems", 1, 3),
  contains: (m, place) => m.part(place, ["contains"]),
  minContains: (m) => m.between(0, 2),
  maxContains: (m) => m.between(1, 3),
  maxItems: (m, _, made) => (made.uniqueItems && m.random.chance(0.7) ? 1 : m.between(0, 4)),
  minItems: (m) => m.between(0, 2),
  uniqueItems: (m) => m.random.chance(0.7),
  maxProperties: (m) => m.between(1, 4),
  minProperties: (m) => m.between(0, 3),
  required: (m) => m.names(1, 2),
  properties: (m, place) => m.map(place, "properties", m.names(1, 3)),
  patternProperties: (m, place) =>
    m.map(place, "patternProperties", [...new Set([m.pools.pattern(), ...(m.random.chance(0.3) ? ["^a"] : [])])]),
  additionalProperties: (m, place) => m.extra(place, "additionalProperties"),
  propertyNames: (m, place) =>
    m.schema(below(place, ["propertyNames"], { about: m.random.chance(0.9) ? "string" : place.about }), 0.05),
  dependencies: (m, place) => ({ ...lists(m), ...m.map(place, "dependencies", m.names(0, 1)) }),
  dependentRequired: (m) => lists(m),
  dependentSchemas: (m, place) => m.map(place, "dependentSchemas", m.names(1, 2)),
  allOf: (m, place) => m.list(place, "allOf", 1, 2),
  anyOf: (m, place) => m.list(place, "anyOf", 1, 3),
  oneOf: (m, place) => m.list(place, "oneOf", 1, 3),
  not: (m, place) => m.here(place, ["not"], 0.04),
  if: (m, place) => m.here(place, ["if"]),
  then: (m, place) => m.here(place, ["then"]),
  else: (m, place) => m.here(place, ["else"]),
  $ref: (m, place) => m.reference(place),
  $defs: (m, place) => m.map(place, spelled("$defs", m.draft), ["unused"]),
  $id: (m, place) => m.id(place),
  $anchor: (m) => m.anchor(),
  unevaluatedItems: (m, place) => m.extra(place, "unevaluatedItems"),
  unevaluatedProperties: (m, place) => m.extra(place, "unevaluatedProperties"),
};
