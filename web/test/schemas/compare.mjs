/** Compares what our grammars of random schemas allow with what ajv says of them. */
import { validator } from "./ajv.mjs";
import { allKeywords, DRAFTS, pairsIn } from "./keywords.mjs";
import { Pools, Random } from "./random.mjs";
import { randomSchema } from "./schema.mjs";
import { instancesFor } from "./values.mjs";

const AHEAD = 32; // questions that wait for their answers

/** The schema with a number in the sequence of a seed, its instances, and which of them ajv calls valid. */
export function randomCase(seed, number) {
  const random = new Random(seed, number);
  const pools = new Pools(random);
  const { draft, schema } = randomSchema(random, pools);
  const validate = validator(schema, draft);
  const instances = instancesFor(random, pools, schema, validate, draft);
  return { number, draft, schema, instances, valid: instances.map(validate) };
}

/** The question to the judge of a case. */
export const questionOf = ({ schema, instances }) => ({ schema, open: true, unchecked: [], instances });

/** Whether the error says that no value passes the schema. Such a schema counts as compiled. */
export const allowsNothing = (error) => error.includes("allows nothing");

/**
 * The wrong verdicts on a case, as { kind, instance }: "allowed" where ajv says invalid, "refused" where it says valid,
 * "nothing" where ajv says valid, and we say that no value passes the schema.
 */
export function differences({ instances, valid }, { error, verdicts }) {
  return instances.flatMap((instance, i) => {
    const verdict = error === undefined ? verdicts[i] : allowsNothing(error) ? "nothing" : undefined;
    if (!valid[i] && (verdict === "allowed" || verdict === "order")) return [{ kind: "allowed", instance }];
    if (valid[i] && (verdict === "refused" || verdict === "nothing")) return [{ kind: verdict, instance }];
    return [];
  });
}

const keywords = new Set(Object.keys(DRAFTS).flatMap(allKeywords));

/** The keyword that a schema is refused for, which ends the JSON Pointer in the error. Names there may have colons. */
export function refusedFor(error) {
  if (/units of work|too large/.test(error)) return "for the bounds of work";
  const ends = [...error.matchAll(/: /g)].map(({ index }) => error.slice(0, index).split("/").at(-1));
  return ends.find((name) => keywords.has(name)) ?? "for another reason";
}

/** Counts of cases: of a draft, or of all. */
export class Tally {
  schemas = 0;
  satisfied = 0; // those with an instance that ajv calls valid
  compiled = 0;
  valid = 0; // instances of compiled schemas
  invalid = 0;
  allowed = 0; // invalid ones
  refused = 0; // valid ones
  ordered = 0; // valid ones that are allowed in another order of their properties
  not_judged = 0; // those with too many orders for the judge

  add(one, answer) {
    this.schemas++;
    if (one.valid.includes(true)) this.satisfied++;
    if (answer.error !== undefined && !allowsNothing(answer.error)) return;
    this.compiled++;
    for (const [i, valid] of one.valid.entries()) {
      const verdict = answer.verdicts?.[i] ?? "refused";
      this[valid ? "valid" : "invalid"]++;
      if (valid && verdict === "order") this.ordered++;
      if (!["allowed", "order", "refused"].includes(verdict)) this.not_judged++;
    }
    for (const { kind } of differences(one, answer)) this[kind === "allowed" ? "allowed" : "refused"]++;
  }
}

/**
 * Compares `count` schemas of a seed, from a number on. Returns { all, drafts, pairs, refusals, wrong }: tallies, how
 * many schemas have each pair of keywords, how many are refused for each keyword, and the differences with their cases.
 */
export async function sweep(judge, { seed, from = 0, count, progress = () => {} }) {
  const drafts = Object.fromEntries(Object.keys(DRAFTS).map((draft) => [draft, new Tally()]));
  const [all, pairs, refusals, wrong, pending] = [new Tally(), new Map(), new Map(), [], []];
  const more = (map, key) => map.set(key, (map.get(key) ?? 0) + 1);
  const settle = async () => {
    const { one, asked } = pending.shift();
    const answer = await asked;
    for (const tally of [all, drafts[one.draft]]) tally.add(one, answer);
    if (answer.error !== undefined && !allowsNothing(answer.error)) more(refusals, refusedFor(answer.error));
    for (const { kind, instance } of differences(one, answer)) wrong.push({ kind, instance, one, answer });
    progress(all, wrong);
  };
  for (let number = from; number < from + count; number++) {
    const one = randomCase(seed, number);
    for (const pair of pairsIn(one.schema)) more(pairs, pair);
    pending.push({ one, asked: judge.ask(questionOf(one)) });
    if (pending.length >= AHEAD) await settle();
  }
  while (pending.length > 0) await settle();
  return { all, drafts, pairs, refusals, wrong };
}
