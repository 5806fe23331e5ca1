/**
 * llama.cpp on the CPU, for a parent process: llama.mjs FOLDER-OF-node-llama-cpp THREADS. It answers the messages
 * { call: "load" | "decode", given } as the pages do.
 */
import path from "node:path";
import { pathToFileURL } from "node:url";

const [installed, count] = process.argv.slice(2);
const threads = Number(count);
let model;
let context;

async function load({ path: modelPath, context: contextSize }) {
  const { getLlama, LlamaLogLevel } = await import(pathToFileURL(path.join(installed, "dist", "index.js")).href);
  const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads });
  model = await llama.loadModel({ modelPath });
  context = await model.createContext({ contextSize, threads });
  return { note: `${threads} thread${threads > 1 ? "s" : ""}` };
}

async function decode({ prompt, tokens, seconds }) {
  const sequence = context.getSequence();
  const prompt_ids = model.tokenize(prompt, true);
  if (model.tokens.bos !== null && prompt_ids[0] !== model.tokens.bos) prompt_ids.unshift(model.tokens.bos);
  const ids = [];
  let first = null;
  const asked = performance.now();
  for await (const id of sequence.evaluate(prompt_ids, { temperature: 0 })) {
    const now = performance.now();
    first ??= now;
    if (ids.push(id) === tokens || now - asked > 1000 * seconds) break;
  }
  const end = performance.now();
  sequence.dispose();
  return { output: { ids, prompt_ids, tokens: ids.length }, times: { asked, first, firstTokens: 1, end } };
}

process.on("message", ({ call, given }) =>
  ({ load, decode })[call](given).then(
    (value) => process.send({ value }),
    (error) => process.send({ error: String(error?.message ?? error) }),
  ),
);
process.on("disconnect", () => process.exit()); // llama.cpp's threads stay
