/**
 * Compares our grammars of random schemas with ajv:
 *
 *   node web/test/schemas/fuzz.mjs [--seed=1] [--from=0] [--schemas=100000] [--shrink=5] [--judge=BINARY] [REPORT.json]
 *
 * It makes so many differences of each kind small and prints them.
 */
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";
import { sweep } from "./compare.mjs";
import { Judge } from "./judge.mjs";
import { DRAFTS, pairsOfDraft } from "./keywords.mjs";
import { shrink } from "./shrink.mjs";

// Of so many schemas, so many have each pair of keywords.
const [MANY, LEAST] = [100_000, 50];

const option = (value) => ({ type: "string", default: value });
const { values, positionals } = parseArgs({
  options: {
    ...{ seed: option("1"), from: option("0"), schemas: option(String(MANY)), shrink: option("5") },
    judge: { type: "string" },
  },
  allowPositionals: true,
});
const [seed, from, count, most] = [values.seed, values.from, values.schemas, values.shrink].map(Number);

const judge = await Judge.start(values.judge);
try {
  const progress = ({ schemas }, wrong) => {
    if (schemas % 1000 === 0) process.stderr.write(`\r${schemas} schemas, ${wrong.length} differences`);
  };
  const found = await sweep(judge, { seed, from, count, progress });
  process.stderr.write("\n");
  await print(found.wrong);
  if (positionals[0]) writeFileSync(positionals[0], JSON.stringify(report(found)));
  else console.log(report(found));
} finally {
  judge.end();
}

/** What the report has: a row a draft and one of all, the pairs of keywords, and what schemas are refused for. */
function report({ all, drafts, pairs, refusals }) {
  const row = (tally) => ({
    ...{ schemas: tally.schemas, compiled: tally.compiled / tally.schemas },
    ...{ invalid: tally.invalid, invalid_allowed: tally.allowed },
    ...{ valid: tally.valid, valid_refused: tally.refused, valid_other_order: tally.ordered },
    not_judged: tally.not_judged,
  });
  const possible = new Set(Object.keys(DRAFTS).flatMap(pairsOfDraft));
  const least = Math.min(...[...possible].map((pair) => pairs.get(pair) ?? 0));
  if (all.schemas >= MANY && least < LEAST) throw new Error(`some pair of keywords stands in ${least} schemas`);
  const version = (name) => createRequire(import.meta.url)(`${name}/package.json`).version;
  const data = { "fuzz/ajv": { version: version("ajv"), formats: version("ajv-formats") } };
  for (const [draft, tally] of Object.entries(drafts)) data[`fuzz/${nameOf(draft)}`] = row(tally);
  data["fuzz/drafts together"] = row(all);
  data["fuzz/pairs"] = { pairs: possible.size, least };
  for (const [keyword, n] of [...refusals].sort(([, a], [, b]) => b - a))
    data[`fuzz/refused ${keyword}`] = { schemas: n };
  return data;
}

function nameOf(draft) {
  return draft === "none" ? "draft not named" : `draft ${draft}`;
}

/** Prints small cases of the differences, each once. */
async function print(wrong) {
  const [tries, printed] = [{}, new Set()];
  for (const { kind, instance, one } of wrong) {
    tries[kind] = (tries[kind] ?? 0) + 1;
    if (tries[kind] > most) continue;
    const small = await shrink(judge, { kind, draft: one.draft, schema: one.schema, instance });
    const text = `${kind}: ${JSON.stringify(small.schema)}\n    ${JSON.stringify(small.instance)}`;
    if (!printed.has(text)) console.error(`${one.number} (${nameOf(one.draft)}) ${text}`);
    printed.add(text);
  }
}
