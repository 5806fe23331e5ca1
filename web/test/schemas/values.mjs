/** Values for a schema: random ones, ones that are made to pass it, and those changed in one place. */
import { resolve, siblingsOfRef } from "./keywords.mjs";
import { FORMATS, NAMES } from "./random.mjs";

const DEEPEST = 6; // schemas within schemas of a value that is made
const MOST = 12; // values within it, because objects are tried in all orders

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const typeOf = (value) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);
const isOf = (type, value) => type === typeOf(value) || (type === "integer" && Number.isInteger(value));
const matches = (pattern, text) => new RegExp(pattern, "u").test(text);

/** Makes values that pass a schema, as far as choices made one after the other lead to such. */
export class Values {
  constructor(random, pools, root, draft) {
    Object.assign(this, { random, pools, root, draft });
  }

  /** A value that passes the root, often. */
  fit() {
    this.made = 0;
    return this.#fit([this.root], 0);
  }

  /** The value with one place in it changed. */
  change(value) {
    const { random, pools } = this;
    const parts = Array.isArray(value) ? value.length : isObject(value) ? Object.keys(value).length : 0;
    if (random.chance(0.1)) return pools.value(1);
    if (typeof value === "number")
      return rounded(random.pick([value + 1, value - 1, value * 2, -value || 1, value + 0.5]));
    if (typeof value === "string") return this.#changedText(value);
    if (Array.isArray(value)) return this.#changedList(value, parts);
    if (isObject(value)) return this.#changedObject(value, parts);
    return pools.scalar();
  }

  #changedText(text) {
    const { random, pools } = this;
    if (random.chance(0.3) || text.length > 6) return pools.text();
    const chars = [...text];
    const at = random.below(chars.length + 1);
    chars.splice(at, random.below(2), ...random.pick([[], ["a"], ["1"], ["😀"], [" "]]));
    return chars.join("");
  }

  #changedList(list, n) {
    const { random, pools } = this;
    const at = random.below(n);
    if (n > 0 && random.chance(0.5)) return list.with(at, this.change(list[at]));
    if (n > 0 && random.chance(0.5)) return list.toSpliced(at, 1);
    return list.toSpliced(at, 0, n > 0 && random.chance(0.4) ? random.pick(list) : pools.value(1));
  }

  #changedObject(object, n) {
    const { random, pools } = this;
    const name = random.pick(Object.keys(object));
    if (n > 0 && random.chance(0.5)) return { ...object, [name]: this.change(object[name]) };
    if (n === 0 || random.chance(0.5)) return { ...object, [random.pick(NAMES)]: pools.value(1) };
    return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
  }

  #fit(schemas, depth) {
    const { random, pools } = this;
    if (depth > DEEPEST || this.made++ > MOST) return pools.scalar();
    const all = this.#flat(schemas, depth);
    const lists = all.flatMap((one) => ("const" in one ? [[one.const]] : one.enum ? [one.enum] : []));
    if (lists.length > 0) {
      const texts = lists.map((list) => list.map((value) => JSON.stringify(value)));
      const common = texts[0].filter((text) => texts.every((list) => list.includes(text)));
      return JSON.parse(random.pick(common.length > 0 ? common : texts[0]));
    }
    const type = this.#type(all);
    if (type === "number" || type === "integer") return this.#number(all, type === "integer");
    if (type === "string") return this.#string(all);
    if (type === "array") return this.#array(all, depth);
    if (type === "object") return this.#object(all, depth);
    return type === "null" ? null : random.chance(0.5);
  }

  /** The objects that assert of one value together, with one way of anyOf, oneOf and if taken. */
  #flat(schemas, depth) {
    return schemas.flatMap((schema) => {
      if (!isObject(schema) || depth > DEEPEST) return [];
      const way = this.#way(schema).filter((one) => one !== undefined);
      if (schema.$ref !== undefined && !siblingsOfRef(this.draft)) return this.#flat(way, depth + 1);
      return [schema, ...this.#flat(way, depth + 1)];
    });
  }

  #way(schema) {
    const { random, root } = this;
    const way = [...(schema.allOf ?? [])];
    if (schema.$ref !== undefined) way.push(resolve(root, schema.$ref));
    for (const some of [schema.anyOf, schema.oneOf]) if (some) way.push(random.pick(some));
    if (schema.if !== undefined && random.chance(0.5)) way.push(schema.if, schema.then);
    else if (schema.if !== undefined) way.push(schema.else);
    return way;
  }

  #type(all) {
    const { random } = this;
    const every = ["null", "boolean", "integer", "number", "string", "array", "object"];
    const asked = all.flatMap(({ type }) => (type === undefined ? [] : [[type].flat()]));
    const holds = (type, list) => list.includes(type) || (type === "integer" && list.includes("number"));
    const left = every.filter((type) => asked.every((list) => holds(type, list)));
    const about = left.filter((type) => all.some((one) => ABOUT[type]?.some((name) => name in one)));
    if (about.length > 0 && random.chance(0.8)) return random.pick(about);
    return random.pick(left.length > 0 ? left : every);
  }

  #number(all, whole) {
    const { random, pools } = this;
    const bounds = all.flatMap((one) => [one.minimum, one.maximum, one.exclusiveMinimum, one.exclusiveMaximum]);
    const ends = bounds.filter((bound) => typeof bound === "number");
    const near = [0, ...ends].flatMap((end) => [end, end + 1, end - 1, end + 0.5, end - 0.01]);
    const steps = all.flatMap((one) => (one.multipleOf ? [one.multipleOf] : []));
    const multiples = steps.flatMap((step) => near.map((end) => rounded(Math.ceil(end / step) * step)));
    const product = rounded(steps.reduce((a, b) => a * b, 1));
    const passes = (x) =>
      (!whole || Number.isInteger(x)) &&
      steps.every((step) => isMultiple(x, step)) &&
      all.every((one) => x >= (one.minimum ?? x) && x <= (one.maximum ?? x)) &&
      all.every((one) => !(x <= one.exclusiveMinimum) && !(x >= one.exclusiveMaximum));
    const others = Array.from({ length: 9 }, () => pools.number());
    const tries = [...near.map(rounded), ...multiples, product, -product, ...others];
    const good = tries.filter(passes);
    return random.pick(good.length > 0 ? good : tries);
  }

  #string(all) {
    const { random, pools } = this;
    const patterns = all.flatMap(({ pattern }) => (pattern === undefined ? [] : [pattern]));
    const formats = all.flatMap(({ format }) => FORMATS[format] ?? []);
    const least = Math.max(0, ...all.map((one) => one.minLength ?? 0));
    const most = Math.min(...all.map((one) => one.maxLength ?? Infinity));
    const from = [...patterns.flatMap((pattern) => pools.samples(pattern)), ...formats];
    for (let i = 0; i < 12; i++) from.push(pools.text());
    const short = (text) => [...text].slice(0, most).join("");
    const grown = from.flatMap((text) => [text, text + text, text + "a".repeat(least), short(text)]);
    const fits = (text) => [...text].length >= least && [...text].length <= most;
    const good = grown.filter((text) => fits(text) && patterns.every((pattern) => matches(pattern, text)));
    const known = good.filter((text) => formats.includes(text));
    if (known.length > 0 && random.chance(0.95)) return random.pick(known);
    return random.pick(good.length > 0 ? good : from);
  }

  #array(all, depth) {
    const { random } = this;
    const least = Math.max(0, ...all.map((one) => one.minItems ?? 0));
    const most = Math.min(least + 3, ...all.map((one) => one.maxItems ?? Infinity));
    const contains = all.flatMap((one) => {
      const n = one.contains === undefined ? 0 : Math.max(one.minContains ?? 1, random.below(2));
      return Array.from({ length: n }, () => one.contains);
    });
    const n = Math.max(contains.length, least + random.below(Math.max(1, most - least + 1)));
    const places = random.shuffle(Array.from({ length: n }, (_, i) => i));
    const made = [];
    for (let i = 0; i < n; i++) {
      const own = all.flatMap((one) => itemAt(one, i));
      const wanted = contains[places.indexOf(i)];
      const make = () => this.#fit(wanted === undefined ? own : [...own, wanted], depth + 1);
      made.push(make());
      const unique = all.some((one) => one.uniqueItems);
      const twice = () => made.slice(0, -1).some((one) => JSON.stringify(one) === JSON.stringify(made.at(-1)));
      for (let tries = 0; unique && twice() && tries < 6; tries++) made[i] = make();
    }
    return made;
  }

  #object(all, depth) {
    const { random } = this;
    const least = Math.max(0, ...all.map((one) => one.minProperties ?? 0));
    const most = Math.min(...all.map((one) => one.maxProperties ?? Infinity));
    const names = new Set(all.flatMap((one) => one.required ?? []));
    const named = [...new Set(all.flatMap((one) => Object.keys(one.properties ?? {})))];
    for (const name of named) if (names.size < most && random.chance(0.5)) names.add(name);
    if (random.chance(0.4)) names.add(this.#name(all, depth));
    for (let tries = 0; names.size < least && tries < 12; tries++) names.add(this.#name(all, depth));
    const asked = [...all];
    for (const name of names) {
      for (const one of asked) {
        const follows = { ...one.dependentRequired, ...one.dependentSchemas, ...one.dependencies };
        if (!Object.hasOwn(follows, name)) continue;
        if (Array.isArray(follows[name])) for (const other of follows[name]) names.add(other);
        else asked.push(...this.#flat([follows[name]], depth + 1).filter((other) => !asked.includes(other)));
      }
    }
    const order = random.chance(0.8) ? [...new Set([...named, ...names])].filter((name) => names.has(name)) : names;
    const member = (name) => [
      name,
      this.#fit(
        asked.flatMap((one) => memberOf(one, name)),
        depth + 1,
      ),
    ];
    return Object.fromEntries([...order].map(member));
  }

  /** A name that patterns and propertyNames have a say in. */
  #name(all, depth) {
    const { random, pools } = this;
    const rules = all.flatMap((one) => (one.propertyNames === undefined ? [] : [one.propertyNames]));
    if (rules.length > 0 && random.chance(0.8)) return String(this.#fit([{ type: "string" }, ...rules], depth + 1));
    const patterns = all.flatMap((one) => Object.keys(one.patternProperties ?? {}));
    const sample = patterns.length > 0 && random.chance(0.7) ? pools.samples(random.pick(patterns)) : NAMES;
    return random.pick(sample);
  }
}

const NUMBER = ["multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"];
const ABOUT = {
  integer: NUMBER,
  number: NUMBER,
  string: ["maxLength", "minLength", "pattern", "format"],
  array: ["items", "prefixItems", "contains", "maxItems", "minItems", "uniqueItems", "unevaluatedItems"],
  object: [
    ...["maxProperties", "minProperties", "required", "properties", "patternProperties", "additionalProperties"],
    ...["propertyNames", "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties"],
  ],
};

/** A number without the last digits, which are those that binary fractions got wrong. */
const rounded = (x) => Number(x.toFixed(6));

export const isMultiple = (x, step) => Math.abs(x / step - Math.round(x / step)) < 1e-9;

/** The schemas that an object asserts of the item at a place. */
function itemAt(schema, i) {
  const tuple = schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : []);
  if (i < tuple.length) return [tuple[i]];
  const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  return [rest ?? schema.unevaluatedItems].filter((one) => one !== undefined);
}

/** The schemas that an object asserts of the member with a name. */
function memberOf(schema, name) {
  const own = Object.hasOwn(schema.properties ?? {}, name) ? [schema.properties[name]] : [];
  const more = Object.entries(schema.patternProperties ?? {}).filter(([pattern]) => matches(pattern, name));
  const all = [...own, ...more.map(([, one]) => one)];
  const rest = schema.additionalProperties ?? schema.unevaluatedProperties;
  return all.length > 0 || rest === undefined ? all : [rest];
}

/** Random values, values made to pass and changed ones, none twice, for `passes`, which a validator says of a value. */
export function instancesFor(random, pools, root, passes, draft) {
  const values = new Values(random, pools, root, draft);
  const made = Array.from({ length: 5 }, () => values.fit());
  for (let tries = 0; tries < 10 && !made.some(passes); tries++) made.push(values.fit());
  const good = made.filter(passes);
  const changed = Array.from({ length: 4 }, () => values.change(random.pick(good.length > 0 ? good : made)));
  const free = Array.from({ length: 3 }, () => pools.value());
  const all = [...made, ...changed, ...free];
  return [...new Map(all.map((value) => [JSON.stringify(value), value])).values()].filter(comparable);
}

/**
 * Whether ajv can judge a value: all numbers are within 2^53 and not −0, which JSON.stringify writes as 0, and no
 * string ends with a dot, as hostnames of ajv-formats may.
 */
function comparable(value) {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER && !Object.is(value, -0);
  if (typeof value === "string") return !value.endsWith(".");
  return typeof value !== "object" || value === null || Object.values(value).every(comparable);
}
