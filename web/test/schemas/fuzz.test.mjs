/** Tests of random schemas against ajv, and of what makes them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { validator } from "./ajv.mjs";
import { differences, randomCase, refusedFor, sweep } from "./compare.mjs";
import { Judge } from "./judge.mjs";
import { allKeywords, DRAFTS, pairsIn, pairsOfDraft, resolve, spelled } from "./keywords.mjs";
import { shrink } from "./shrink.mjs";

const SEED = 1;
const SCHEMAS = 2000;

let judge;

before(async () => {
  judge = await Judge.start();
});

after(() => judge.end());

test("grammars of random schemas allow no value that ajv calls invalid, and few valid ones less", async () => {
  const { all, wrong, pairs } = await sweep(judge, { seed: SEED, count: SCHEMAS });
  const allowed = wrong.filter(({ kind }) => kind === "allowed");
  const lines = allowed.map(({ one, instance }) => `${JSON.stringify(instance)} of ${JSON.stringify(one.schema)}`);
  assert.deepEqual(lines, []);
  assert.deepEqual(
    wrong.filter(({ kind }) => kind === "nothing").map(({ one }) => JSON.stringify(one.schema)),
    [],
  );
  assert.ok(all.compiled >= 0.7 * SCHEMAS, `${all.compiled} of ${SCHEMAS} schemas compile`);
  assert.ok(all.refused <= 0.01 * all.valid, `${all.refused} of ${all.valid} valid instances are refused`);
  assert.equal(all.not_judged, 0);
  const absent = [...new Set(Object.keys(DRAFTS).flatMap(pairsOfDraft))].filter((pair) => !pairs.has(pair));
  assert.deepEqual(absent, []);
  assert.ok(all.satisfied >= 0.8 * SCHEMAS, `${all.satisfied} schemas have a valid instance`);
  assert.ok(all.invalid >= 0.3 * all.valid, `${all.invalid} instances are invalid, ${all.valid} valid`);
});

test("a seed gives the same schemas and instances each time", () => {
  for (const number of [0, 7, 1999]) assert.deepEqual(randomCase(SEED, number), randomCase(SEED, number));
  assert.notDeepEqual(randomCase(SEED, 0).schema, randomCase(SEED + 1, 0).schema);
});

test("pairs of keywords are counted in schemas within schemas", () => {
  const schema = { allOf: [{ minimum: 1, type: "number" }, true], $defs: { a: { id: "x", not: false } } };
  assert.deepEqual([...pairsIn(schema)].sort(), [
    ...["$defs allOf", "$defs true", "$id false", "$id not", "allOf true", "false not", "minimum type"],
  ]);
  assert.ok(!pairsOfDraft("7").includes("$ref type"), "nothing beside $ref counts in draft 7");
  const all = new Set(Object.keys(DRAFTS).flatMap(pairsOfDraft));
  for (const pair of ["$ref type", "additionalItems prefixItems", "dependencies dependentRequired", "false minimum"])
    assert.ok(all.has(pair), pair);
});

test("random schemas use every keyword of the documented table", () => {
  const page = readFileSync(new URL("../../../docs/json-schema.md", import.meta.url), "utf8");
  const documented = [...page.matchAll(/^\| `([\w$]+)` \|/gm)].map(([, name]) => name);
  assert.ok(documented.length > 40, `found ${documented.length} keywords`);
  const drawn = new Set(
    Object.keys(DRAFTS).flatMap((draft) => allKeywords(draft).flatMap((name) => spelled(name, draft))),
  );
  // ajv wants a type beside nullable, the others are refused or name places that only those refer to.
  const others = ["nullable", "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$schema"];
  assert.deepEqual(documented.filter((name) => !drawn.has(name)).sort(), others.sort());
});

test("references resolve by pointers, anchors and ids", () => {
  const [a, b, c] = [{ type: "null" }, { $anchor: "b" }, { $id: "https://example.test/c" }];
  const root = { $defs: { "a/~ %": a, b, c } };
  assert.equal(resolve(root, "#/$defs/a~1~0%20%25"), a);
  assert.equal(resolve(root, "#b"), b);
  assert.equal(resolve(root, "https://example.test/c"), c);
  assert.equal(resolve(root, "#"), root);
});

test("answers are compared with what ajv says", () => {
  const one = { instances: [1, 2, 3], valid: [true, false, true] };
  const kinds = (answer) => differences(one, answer).map(({ kind, instance }) => `${kind} ${instance}`);
  assert.deepEqual(kinds({ verdicts: ["allowed", "refused", "order"] }), []);
  assert.deepEqual(kinds({ verdicts: ["refused", "order", "allowed"] }), ["refused 1", "allowed 2"]);
  assert.deepEqual(kinds({ error: "grammar: schema at #: allows nothing: no" }), ["nothing 1", "nothing 3"]);
  assert.deepEqual(kinds({ error: "grammar: schema at #/items/0/not: too much" }), []);
  assert.equal(refusedFor("grammar: schema at #/items/0/not: is: no"), "not");
  assert.equal(refusedFor("grammar: schema at #/patternProperties/(?: a)/not: no"), "not");
  assert.equal(refusedFor("grammar: schema at #/properties/not: too large"), "for the bounds of work");
});

test("ajv is right about what it is known to get wrong", () => {
  const tuple = { prefixItems: [{ type: "object" }], contains: {} };
  const others = { properties: { a: {}, b: { type: "null" } }, unevaluatedProperties: false };
  const arrays = { patternProperties: { ".": { contains: { type: "integer" } } } };
  for (const [schema, value, want, draft = "2020-12"] of [
    [tuple, [], false],
    [{ not: tuple }, [], true],
    [arrays, { a: [0], b: [] }, false],
    [arrays, { a: [0], b: [] }, false, "7"],
    [{ if: others, else: true, unevaluatedProperties: false }, { a: 1 }, true],
    [{ if: others, else: true, unevaluatedProperties: false }, { b: 1 }, false],
    [{ oneOf: [{ items: { type: "null" } }, { maxItems: 9 }], unevaluatedItems: false }, [1], false],
    [{ contains: { type: "null" }, unevaluatedItems: { type: "string" } }, [null, "a"], true],
    [{ contains: { type: "null" }, unevaluatedItems: { type: "string" } }, [null, "a"], false, "2019-09"],
    [{ dependentSchemas: { a: { properties: { b: true } } }, unevaluatedProperties: false }, { b: 1 }, false],
    [{ $ref: "#/$defs/a", unevaluatedProperties: false, $defs: { a: others } }, { a: 1, b: null }, true],
  ])
    assert.equal(validator(schema, draft)(value), want, `${JSON.stringify(value)} of ${JSON.stringify(schema)}`);
});

test("a difference is made small", async () => {
  const heedless = (schema) =>
    JSON.parse(JSON.stringify(schema, (key, value) => (key === "maximum" ? undefined : value)));
  const ask = async ({ schema, instances }) => {
    const validate = validator(heedless(schema), "none");
    return { verdicts: instances.map((value) => (validate(value) ? "allowed" : "refused")) };
  };
  const schema = { $defs: { a: { maximum: 4, type: "integer" } }, anyOf: [{ $ref: "#/$defs/a" }, { const: "x" }] };
  const small = await shrink({ ask }, { kind: "allowed", draft: "none", schema, instance: 9 });
  assert.deepEqual(small, { schema: { maximum: 4 }, instance: 9 });
});
