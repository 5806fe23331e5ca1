/**
 * JSON Schemas of MaskBench, read from $FORETOKEN_SHARED/schemas: how many are held to as they say, how long compiling
 * and masks take, and how many tokens a round brings under ten of them.
 *
 *   node scripts/schemas.mjs FILE   writes a report
 *
 * Masks are timed over llama.cpp's vocabulary llama-bpe, of 128,256 tokens, and at an earlier commit in the same run.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const sample = path.join(
  process.env.FORETOKEN_SHARED || path.join(root, "..", "shared"),
  "schemas",
  "maskbench-sample.jsonl.gz",
);
const EARLIER = "aae0ee1"; // before ordinary tokens were allowed together
const TIMES = 3; // each program is run so often, in turn with the other; a mask's least time counts
const BUFFER = 1 << 30;

/** What MaskBench publishes (guidance-ai/jsonschemabench, March 2025), measured on an AMD EPYC 7V13. */
const PUBLISHED = {
  LLGuidance: { schemas: 11306, right: 8909, not_compiled: 2377, refusing: 20, allowing: 0 },
  XGrammar: { schemas: 11306, right: 8122, not_compiled: 1408, refusing: 1368 },
  Outlines: { schemas: 11306, right: 7050 },
  "llama.cpp": { schemas: 11306, right: 6505, not_compiled: 2850, refusing: 649 },
};
const PUBLISHED_MASKS = { mask_median_us: 46, mask_p99_us: 533 }; // LLGuidance's

const run = (program, args, options) =>
  execFileSync(program, args, { cwd: root, encoding: "utf8", maxBuffer: BUFFER, ...options });
const lines = (text) => text.trim().split("\n").filter(Boolean).map((line) => JSON.parse(line));
const ours = (open) => (open ? "ours, json_open" : "ours, default");

function build(folder, name, of, from = root) {
  const program = path.join(folder, name);
  run(process.env.GO || "go", ["build", "-o", program, of], { cwd: from });
  return program;
}

/** The program of masks at the earlier commit: its packages, with this commit's program. */
function buildEarlier(folder) {
  const tree = path.join(folder, "earlier");
  mkdirSync(tree);
  const packages = ["go.mod", "go.sum", "models", "internal", "spec", "webgpu"];
  const archive = run("git", ["archive", EARLIER, ...packages], { encoding: "buffer" });
  run("tar", ["-x", "-C", tree], { input: archive });
  const masks = path.join("models", "grammar", "judge", "masks");
  mkdirSync(path.join(tree, masks), { recursive: true });
  for (const name of ["main.go", "compile.go"]) {
    const text = readFileSync(path.join(root, masks, name), "utf8");
    const now = "grammar.SchemaOptions{Layout: grammar.Compact, Open: open}";
    writeFileSync(path.join(tree, masks, name), text.replace(now, "grammar.Compact"));
  }
  return build(folder, "masks-earlier", `./${masks}`, tree);
}

/** llama.cpp's vocabulary, out of the copy of its repository that comes with its npm package. */
function vocabulary() {
  const file = path.join(root, "build", "ggml-vocab-llama-bpe.gguf");
  if (existsSync(file)) return file;
  const bundle = path.join(root, "build/llama/node_modules/node-llama-cpp/llama/gitRelease.bundle");
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-llama-"));
  try {
    run("git", ["clone", "--quiet", "--bare", bundle, folder]);
    const text = run("git", ["-C", folder, "show", "HEAD:models/ggml-vocab-llama-bpe.gguf"], { encoding: "buffer" });
    writeFileSync(file, text);
  } finally {
    rmSync(folder, { recursive: true });
  }
  return file;
}

/** The counts of the sample, and the keywords that were refused. */
function judged(judge, folder, rows) {
  const refused = {};
  for (const open of [true, false]) {
    const file = path.join(folder, "counts.json");
    run(judge, ["--sample", sample, "--json", file, ...(open ? ["--open"] : [])]);
    const { keywords, ...counts } = JSON.parse(readFileSync(file, "utf8"));
    rows[`schemas/${ours(open)}`] = { ...counts, right_share: counts.right / counts.schemas };
    for (const [name, n] of Object.entries(keywords)) (refused[name] ??= {})[open ? "refused_open" : "refused"] = n;
  }
  const most = ([, a], [, b]) => (b.refused_open ?? 0) - (a.refused_open ?? 0) || (b.refused ?? 0) - (a.refused ?? 0);
  for (const [name, n] of Object.entries(refused).sort(most)) rows[`schemas/keyword ${name}`] = n;
}

const schemas = () => lines(gunzipSync(readFileSync(sample)).toString());

/** The valid instances that a grammar allows as they are written, as lines for masks. */
function texts(judge, open) {
  const all = schemas().map(({ name, schema, tests }) => {
    const instances = tests.filter(({ valid }) => valid).map(({ data }) => data);
    return { id: name, schema, open, instances };
  });
  const input = all.map((one) => JSON.stringify(one)).join("\n");
  const answers = lines(run(judge, ["--texts"], { input }));
  return all
    .map(({ instances, ...one }, i) => ({ ...one, texts: (answers[i].texts ?? []).filter(Boolean) }))
    .filter((one) => one.texts.length > 0);
}

const at = (sorted, share) => sorted[Math.floor(share * (sorted.length - 1))];
const ascending = (a, b) => a - b;

/** Times of the masks of those schemas that all runs of all programs have. */
function summary(runs, ids) {
  const all = ids.flatMap((id) => {
    const times = runs.map((of) => of.get(id));
    return times[0].map((_, i) => Math.min(...times.map((us) => us[i])));
  });
  all.sort(ascending);
  const mean = all.reduce((sum, us) => sum + us, 0) / all.length;
  return {
    mask_schemas: ids.length,
    masks: all.length,
    mask_mean_us: mean,
    mask_median_us: at(all, 0.5),
    mask_p99_us: at(all, 0.99),
    mask_max_us: all.at(-1),
  };
}

function masks(judge, folder, rows) {
  const vocab = vocabulary();
  const now = build(folder, "masks", "./models/grammar/judge/masks");
  const earlier = buildEarlier(folder);
  const times = (program, input) => new Map(lines(run(program, [vocab], { input })).map(({ id, us }) => [id, us]));
  const written = (open) => texts(judge, open).map((one) => JSON.stringify(one)).join("\n");
  const runs = { before: [], after: [], open: [] };
  const [closed, open] = [written(false), written(true)];
  // Both programs get the texts of the schemas that both compile.
  const both = times(earlier, closed);
  const input = closed.split("\n").filter((line) => both.has(JSON.parse(line).id)).join("\n");
  for (let i = 0; i < TIMES; i++) {
    runs.before.push(times(earlier, input));
    runs.after.push(times(now, input));
    runs.open.push(times(now, open));
  }
  const ids = [...runs.before[0].keys()].filter((id) => runs.after[0].has(id));
  const [before, after] = [summary(runs.before, ids), summary(runs.after, ids)];
  rows[`schemas/masks at ${EARLIER}`] = before;
  rows["schemas/masks now"] = after;
  after.median_of_before = after.mask_median_us / before.mask_median_us;
  after.p99_of_before = after.mask_p99_us / before.mask_p99_us;
  rows["schemas/masks now, json_open"] = summary(runs.open, [...runs.open[0].keys()]);
  rows["schemas/masks, those published for LLGuidance"] = PUBLISHED_MASKS;
}

/** Ten schemas of objects that compile, from the whole sample. */
function chosen(judge) {
  const all = texts(judge, false).filter(({ schema }) => schema.properties);
  return Array.from({ length: 10 }, (_, i) => all[Math.floor(((i + 0.5) * all.length) / 10)]);
}

/** Tokens a round under schemas, and whether every method writes the text of plain decoding. */
function rounds(judge, rows) {
  const program = path.join(root, "build", "foretoken");
  for (const { id, schema } of chosen(judge)) {
    const args = ["generate", "--json", "--device", "cpu", "--json-compact", "--max-tokens", "200"];
    args.push("--prompt", "// An example of the configuration, as JSON:\n", "--json-schema", JSON.stringify(schema));
    const cells = {};
    let plain;
    for (const policy of ["none", "ngram", "chain", "auto"]) {
      const { text, stats } = JSON.parse(run(program, [...args, "--policy", policy], { stdio: "pipe" }));
      plain ??= text;
      if (text !== plain) throw new Error(`${id}: ${policy} writes another text than plain decoding`);
      cells.tokens = stats.output_tokens;
      cells[`${policy}:a_round`] = stats.output_tokens / stats.rounds;
    }
    rows[`schemas/rounds ${id}`] = cells;
  }
}

const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-schemas-"));
try {
  const rows = {};
  const judge = build(folder, "judge", "./models/grammar/judge");
  judged(judge, folder, rows);
  for (const [name, counts] of Object.entries(PUBLISHED))
    rows[`schemas/${name}, as published`] = { ...counts, right_share: counts.right / counts.schemas };
  masks(judge, folder, rows);
  rounds(judge, rows);
  writeFileSync(process.argv[2], JSON.stringify(rows));
} finally {
  rmSync(folder, { recursive: true });
}
