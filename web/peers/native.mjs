/**
 * Natively beside llama.cpp: plain greedy decoding of the test models on the CPU, one thread each, the engines in turn.
 * Prints Markdown.
 *
 *   node web/peers/native.mjs [--models LIST] [--repeat 5] [--tokens 200] [--llama build/llama] [--json FILE]
 *
 * --llama is a folder that node-llama-cpp is installed in, and build/foretoken is our program: `make bench-native`
 * makes both. Rates leave out the first token.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { MODELS } from "./models.mjs";
import { agreement, rates, summary } from "./stats.mjs";

const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
const { values } = parseArgs({
  options: {
    models: { type: "string", default: "x26m-q8_0,x26m-q4_0,x135m-q8_0,built-in" },
    repeat: { type: "string", default: "5" },
    tokens: { type: "string", default: "200" },
    llama: { type: "string", default: path.join(root, "build", "llama") },
    json: { type: "string" },
  },
});
const [repeat, tokens] = [values.repeat, values.tokens].map(Number);
const names = values.models.split(",");
const models = MODELS.filter(({ name }) => names.includes(name));
if (models.length < names.length) throw new Error(`native: --models: want some of ${MODELS.map((m) => m.name).join()}`);
const installed = path.join(values.llama, "node_modules", "node-llama-cpp");
if (!existsSync(installed)) throw new Error(`native: --llama: no node-llama-cpp in ${values.llama}; make bench-native`);

/** Our program decodes in a process of its own, which loads the model and reads the prompt once untimed. */
function ours(file, prompt) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-native-"));
  try {
    const prompts = path.join(folder, "prompts.jsonl");
    writeFileSync(prompts, ["warm", "timed"].map((id) => JSON.stringify({ id, prompt })).join("\n"));
    const flags = ["generate", "--target", file, "--draft", "none", "--device", "cpu", "--threads", "1"];
    flags.push("--policy", "none", "--max-tokens", String(tokens), "--prompt-file", prompts, "--json");
    const stdio = ["ignore", "pipe", "ignore"];
    const lines = execFileSync(path.join(root, "build", "foretoken"), flags, { encoding: "utf8", stdio }).trim();
    const { token_ids, stats } = JSON.parse(lines.split("\n")[1]);
    const times = { asked: 0, first: stats.ttft_ms, end: stats.total_ms, sinceFirst: 0 };
    return { ids: token_ids, ...rates({ ...times, tokens: token_ids.length, firstTokens: 1 }) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns a function that decodes by llama.cpp. */
async function llamaCpp(file) {
  const { getLlama, LlamaLogLevel } = await import(pathToFileURL(path.join(installed, "dist", "index.js")).href);
  const options = { gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 1 };
  const model = await (await getLlama(options)).loadModel({ modelPath: file });
  const context = await model.createContext({ contextSize: 512, threads: 1 });
  return async (prompt) => {
    const sequence = context.getSequence();
    const ids = model.tokenize(prompt, true);
    if (model.tokens.bos !== null && ids[0] !== model.tokens.bos) ids.unshift(model.tokens.bos);
    const asked = performance.now();
    let first;
    const out = [];
    for await (const id of sequence.evaluate(ids, { temperature: 0 })) {
      first ??= performance.now();
      if (out.push(id) === tokens) break;
    }
    const end = performance.now();
    sequence.dispose();
    const times = { asked, first, end, sinceFirst: 0 };
    return { ids: out, prompt_tokens: ids.length, ...rates({ ...times, tokens: out.length, firstTokens: 1 }) };
  };
}

const measured = [];
for (const { name, folder, target, prompt } of models) {
  const file = path.join(root, folder === "demo" ? "models/demo" : "build/testmodels", target);
  const theirs = await llamaCpp(file);
  const { prompt_tokens } = await theirs(prompt);
  const runs = { ours: [], theirs: [] };
  for (let i = 0; i < repeat; i++) {
    runs.ours.push(ours(file, prompt));
    runs.theirs.push(await theirs(prompt));
  }
  const agreed = agreement(runs.ours[0], runs.theirs[0]);
  const engines = [
    { name: "ours-1", title: "Foretoken, wazero, 1 thread", ...summary(runs.ours) },
    { name: "llama-1", title: "llama.cpp, 1 thread", agreement: agreed, ...summary(runs.theirs) },
  ];
  measured.push({ name, prompt_tokens, engines });
  const [our, their] = engines.map((e) => e.decode_tok_s.median);
  console.log(`| ${name} | ${our.toFixed(0)} | ${their.toFixed(0)} | ${(our / their).toFixed(2)}× |`);
}
const { version } = JSON.parse(readFileSync(path.join(installed, "package.json"), "utf8"));
const report = { versions: { "node-llama-cpp": version }, tokens, repeat, models: measured };
if (values.json) writeFileSync(values.json, JSON.stringify(report));
process.exit(0); // llama.cpp's threads stay
