/** Tests that the schemas that zod, TypeBox, pydantic and documents of OpenAPI write compile, and what they allow. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Judge } from "./judge.mjs";
import * as typebox from "./rows/typebox.mjs";
import { openapi, pydantic } from "./rows/written.mjs";
import * as zod from "./rows/zod.mjs";

let judge;

before(async () => {
  judge = await Judge.start();
});

after(() => judge.end());

/** What is wrong with our answers about a row, as lines: with json_open and, unless the row is open, by default. */
async function wrong(name, schema, yes, no, { unchecked = [], open: onlyOpen = false, refused } = {}) {
  const lines = [];
  for (const open of onlyOpen ? [true] : [true, false]) {
    const answer = await judge.ask({ schema, open, unchecked, instances: [...yes, ...no] });
    const at = `${name}${open ? ", open" : ""}`;
    if (refused) {
      if (!refused.test(answer.error ?? "")) lines.push(`${at}: ${answer.error ?? "compiles"}`);
    } else if (answer.error !== undefined) lines.push(`${at}: ${answer.error}`);
    else
      for (const [i, value] of [...yes, ...no].entries()) {
        const allowed = answer.verdicts[i] !== "refused";
        if (allowed !== i < yes.length) lines.push(`${at}: ${JSON.stringify(value)} is ${answer.verdicts[i]}`);
      }
  }
  return lines;
}

/** Lines about the values of a row that the library itself judges otherwise. */
async function misjudged(name, yes, no, accepts) {
  const asked = [...yes.map((value) => [value, true]), ...no.map((value) => [value, false])];
  const lines = [];
  for (const [value, want] of asked)
    if ((await accepts(value)) === !want) lines.push(`${name}: the library judges ${JSON.stringify(value)} otherwise`);
  return lines;
}

for (const target of zod.targets)
  test(`schemas of zod for ${target}`, async () => {
    const lines = [];
    for (const [name, type, yes, no, options = {}] of zod.rows) {
      if (options.targets && !options.targets.includes(target)) continue;
      if (!options.made) lines.push(...(await misjudged(name, yes, no, (value) => zod.accepts(type, value))));
      lines.push(...(await wrong(name, zod.schemaOf(type, target, options).schema, yes, no, options)));
    }
    assert.deepEqual(lines, []);
  });

test("all classes of zod that JSON Schema can represent have a row", () => {
  const seen = new Set();
  for (const [, type, , , options] of zod.rows)
    for (const name of zod.schemaOf(type, "draft-2020-12", options).classes) seen.add(name);
  const named = zod.unrepresentable.map((name) => `$Zod${name}`);
  assert.deepEqual(zod.classes.filter((name) => !seen.has(name)).sort(), named.sort());
});

test("schemas of TypeBox", async () => {
  const lines = [];
  for (const [name, type, yes, no, options] of typebox.rows) {
    lines.push(...(await misjudged(name, yes, no, (value) => typebox.accepts(type, value))));
    lines.push(...(await wrong(name, typebox.schemaOf(type), yes, no, options)));
  }
  assert.deepEqual(lines, []);
});

for (const [writer, rows] of Object.entries({ pydantic, openapi }))
  test(`schemas of ${writer}`, async () => {
    const lines = [];
    for (const row of rows) lines.push(...(await wrong(...row)));
    assert.deepEqual(lines, []);
  });

test("sets that hold any items are refused unless the request leaves uniqueItems unchecked", async () => {
  const rows = [...typebox.rows.map(([name, type, ...more]) => [name, typebox.schemaOf(type), ...more]), ...pydantic];
  const sets = rows.filter(([, , , , options]) => options?.unchecked);
  assert.equal(sets.length, 2);
  for (const [name, schema] of sets) {
    const { error } = await judge.ask({ schema, open: true, unchecked: [], instances: [] });
    assert.match(error ?? "", /uniqueItems/, name);
  }
});
