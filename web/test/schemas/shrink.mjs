/** Makes a schema and an instance on which we and ajv differ as small as they can be. */
import { validator } from "./ajv.mjs";
import { allowsNothing, differences, questionOf, refusedFor } from "./compare.mjs";
import { resolve, within } from "./keywords.mjs";

/**
 * Removes parts of the schema and of the instance while the difference stays of its kind. A case of the kind "error"
 * has no instance: its schema is refused for the same keyword.
 */
export async function shrink(judge, { kind, draft, schema, instance, keyword }) {
  let small = { schema, instance };
  for (let at = 0, tries = smaller(small); at < tries.length; ) {
    const some = tries.slice(at, at + 24);
    const found = await first(judge, { kind, draft, keyword }, some);
    if (found) [small, at, tries] = [found, 0, smaller(found)];
    else at += some.length;
  }
  return small;
}

/** The first of some cases that still differs. */
async function first(judge, { kind, draft, keyword }, some) {
  const asked = some.map((one) => {
    let validate;
    try {
      validate = validator(one.schema, draft);
    } catch {
      return undefined;
    }
    const instances = kind === "error" ? [] : [one.instance];
    const of = { schema: one.schema, instances, valid: instances.map(validate) };
    return judge.ask(questionOf(of)).then((answer) => {
      if (kind === "error") return refused(answer) && refusedFor(answer.error) === keyword;
      return differences(of, answer).some((difference) => difference.kind === kind);
    });
  });
  const still = await Promise.all(asked);
  return some[still.indexOf(true)];
}

const refused = ({ error }) => error !== undefined && !allowsNothing(error);

/** Cases with one part less, the smallest first. */
function smaller({ schema, instance }) {
  const isSchema = (one) => typeof one === "object" && !Array.isArray(one) && one.$schema === schema.$schema;
  const sized = without(schema, schema)
    .filter(isSchema)
    .map((one) => ({ size: sizeOf(one), one }));
  const ordered = sized.filter(({ size }) => size < sizeOf(schema)).sort((a, b) => a.size - b.size);
  const ofSchema = ordered.map(({ one }) => ({ schema: one, instance }));
  if (instance === undefined) return ofSchema;
  return [...ofSchema, ...without(instance).map((one) => ({ schema, instance: one }))];
}

/** A schema with what a reference leads to is smaller than with the reference. */
function sizeOf(schema) {
  const text = JSON.stringify(schema);
  return text.length + 1e6 * (text.split('"$ref":').length - 1);
}

/** Values with one part less, or a part in place of what holds it; references become what they lead to. */
function without(value, root) {
  if (typeof value === "string") {
    const shorter = [...value].map((_, i) => [...value].toSpliced(i, 1).join(""));
    return root ? shorter.filter((text) => text !== "") : shorter; // ajv requires no property with the name ""
  }
  if (typeof value === "number") return [0, 1, Math.trunc(value)].filter((x) => Math.abs(x) < Math.abs(value));
  if (typeof value !== "object" || value === null) return [];
  const keys = Object.keys(value);
  const parts = Object.values(value).filter((part) => part !== null);
  const all = [...parts, ...parts.flatMap((part) => (typeof part === "object" ? Object.values(part) : []))];
  for (const key of keys) {
    if (Array.isArray(value)) all.push(value.toSpliced(Number(key), 1));
    else all.push(Object.fromEntries(Object.entries(value).filter(([name]) => name !== key)));
    for (const one of without(value[key], root))
      all.push(Array.isArray(value) ? value.with(Number(key), one) : { ...value, [key]: one });
  }
  if (root && typeof value.$ref === "string") {
    const { $ref, ...rest } = value;
    const to = resolve(root, $ref);
    if (typeof to === "object" && !within(to).includes(value)) all.push({ ...to, ...rest });
  }
  return all;
}
