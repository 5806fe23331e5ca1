/**
 * Converts a Llama model from GGUF to ONNX, and verifies the result:
 *
 *   node export-onnx.mjs model.gguf model.onnx [--dequantise] [--reference oracle.json]
 *
 * With a reference (prompts as ids, their greedy continuation and the ten best log-probabilities of each step) it runs
 * the file on ONNX Runtime's CPU provider and compares every step.
 */
import { promises as fs } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { parseGGUF } from "./gguf.mjs";
import { llamaGraph } from "./onnx-graph.mjs";

/** Converts `from`, writes it to `to`, and returns the model's configuration. */
export async function exportONNX(from, to, options = {}) {
  const file = parseGGUF(await fs.readFile(from), path.basename(from));
  const { model, proto } = llamaGraph(file, options);
  const { default: protos } = await import("onnx-proto");
  const { ModelProto } = protos.onnx;
  await fs.mkdir(path.dirname(to), { recursive: true });
  await fs.writeFile(to, ModelProto.encode(ModelProto.fromObject(proto)).finish());
  return model;
}

/** Returns the largest difference of log-probabilities to a reference, and the number of equal greedy choices. */
async function compare(file, model, reference) {
  const ort = await import("onnxruntime-web");
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(await fs.readFile(file), { executionProviders: ["wasm"] });
  let worst = 0;
  let same = 0;
  let steps = 0;
  for (const { ids, cont, top } of reference.results) {
    if (ids.length === 0) continue;
    let feed = ids;
    let total = 0;
    let kv = Array.from(
      { length: 2 * model.layers },
      () => new ort.Tensor("float32", new Float32Array(0), [1, model.kvHeads, 0, model.headDim]),
    );
    for (const [step, best] of top.entries()) {
      total += feed.length;
      const feeds = {
        input_ids: new ort.Tensor("int64", BigInt64Array.from(feed, BigInt), [1, feed.length]),
        seqlens_k: new ort.Tensor("int32", Int32Array.of(total - 1), [1]),
        total_sequence_length: new ort.Tensor("int32", Int32Array.of(total), []),
      };
      const name = (of, i) => `${of}.${i >> 1}.${i % 2 ? "value" : "key"}`;
      kv.forEach((t, i) => (feeds[name("past_key_values", i)] = t));
      const out = await session.run(feeds);
      kv = kv.map((_, i) => out[name("present", i)]);
      const logits = Float64Array.from(out.logits.data);
      const max = logits.reduce((a, b) => Math.max(a, b));
      const norm = max + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - max), 0));
      for (const [id, expected] of best) worst = Math.max(worst, Math.abs(logits[id] - norm - expected));
      if (logits.indexOf(max) === cont[step]) same++;
      steps++;
      feed = [cont[step]];
    }
  }
  return { worst, same, steps };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { dequantise: { type: "boolean", default: false }, reference: { type: "string" } },
  });
  const [from, to] = positionals;
  if (!from || !to)
    throw new Error("peers: usage: export-onnx.mjs model.gguf model.onnx [--dequantise] [--reference oracle.json]");
  const model = await exportONNX(from, to, { dequantise: values.dequantise });
  console.log(`peers: wrote ${to}: ${(await fs.stat(to)).size} bytes, ${model.layers} layers`);
  if (values.reference) {
    const { worst, same, steps } = await compare(to, model, JSON.parse(await fs.readFile(values.reference, "utf8")));
    console.log(
      `peers: ${steps} steps: ${same} greedy choices agree, log-probabilities within ${worst.toPrecision(2)} nats`,
    );
    if (steps === 0) throw new Error(`peers: ${values.reference}: has no steps to compare with`);
  }
}
