/** The options of the benchmark: engines, models, lengths. */
import { parseArgs } from "node:util";
import { ENGINES } from "./engines.mjs";
import { MODELS } from "./models.mjs";

export const USAGE = `usage: bench.mjs [options]
  --engines LIST   of ${ENGINES.map((e) => e.name).join(", ")} (all)
  --models LIST    of ${MODELS.map((m) => m.name).join(", ")} (all but the large ones)
  --long LIST      engines that read a model's long prompt once, of those that run (none)
  --repeat N       timed repetitions, the engines in turn (3)
  --tokens N       tokens a repetition (64)
  --seconds N      end a repetition after so long and count what came (6)
  --warm N         seconds for which an engine decodes before anything is timed (3)
  --adapter NAME   swiftshader, or default: whatever Chromium finds (swiftshader)
  --site DIR       our built site (web/dist)
  --testmodels DIR where the test models are (build/testmodels)
  --out DIR        for the exported models, report.json and report.md (build/peers)
  --json FILE      the medians alone, for docs/reports`;

/** Parses a command line; errors name the option and its values. */
export function parseOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      engines: { type: "string", default: ENGINES.map((e) => e.name).join(",") },
      models: { type: "string", default: MODELS.filter((m) => !m.large).map((m) => m.name).join(",") },
      long: { type: "string" },
      repeat: { type: "string", default: "3" },
      tokens: { type: "string", default: "64" },
      seconds: { type: "string", default: "6" },
      warm: { type: "string", default: "3" },
      adapter: { type: "string", default: "swiftshader" },
      site: { type: "string", default: "web/dist" },
      testmodels: { type: "string", default: "build/testmodels" },
      out: { type: "string", default: "build/peers" },
      json: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (!["swiftshader", "default"].includes(values.adapter))
    throw new Error(`peers: --adapter: ${values.adapter} is neither swiftshader nor default`);
  return {
    help: values.help,
    engines: chosen("--engines", values.engines, ENGINES),
    models: chosen("--models", values.models, MODELS),
    long: values.long === undefined ? [] : chosen("--long", values.long, ENGINES),
    repeat: count("--repeat", values.repeat, 1),
    tokens: count("--tokens", values.tokens, 2),
    seconds: count("--seconds", values.seconds, 1),
    warm: count("--warm", values.warm, 1),
    adapter: values.adapter,
    site: values.site,
    testmodels: values.testmodels,
    out: values.out,
    json: values.json,
  };
}

/** Returns the entries of `all` with these names, in the order of the names. */
function chosen(option, list, all) {
  const names = [
    ...new Set(
      list
        .split(",")
        .map((name) => name.trim())
        .filter(Boolean),
    ),
  ];
  if (names.length === 0) throw new Error(`peers: ${option}: empty; want one of ${all.map((e) => e.name).join(", ")}`);
  return names.map((name) => {
    const found = all.find((entry) => entry.name === name);
    if (!found)
      throw new Error(`peers: ${option}: ${name} is unknown; want one of ${all.map((e) => e.name).join(", ")}`);
    return found;
  });
}

function count(option, text, least) {
  const n = Number(text);
  if (!Number.isInteger(n) || n < least)
    throw new Error(`peers: ${option}: ${text} is not an integer of at least ${least}`);
  return n;
}
