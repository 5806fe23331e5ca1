// Writes llama.cpp's log-probabilities of models: node llamacpp.mjs NODE_MODULES OUT_DIR MODEL.gguf...
//
// node-llama-cpp in NODE_MODULES decodes greedily after five prompts of token ids, with keys, values and weights in f32
// and without flash attention. For each step OUT_DIR/MODEL.json has the ten best tokens with their log-probabilities,
// as reference.py writes them. `go test ./models/modeltest -update` runs it.
import {createHash} from "node:crypto";
import {readFile, writeFile} from "node:fs/promises";
import {basename, join, resolve} from "node:path";
import {pathToFileURL} from "node:url";

const prompts = {"a line": 9, "one token": 1, "a paragraph": 41, "a few tokens": 5, "two lines": 20};
const steps = 24;

const [modules, out, ...models] = process.argv.slice(2);
const entry = join(resolve(modules), "node-llama-cpp/dist/index.js");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(entry).href);
const llama = await getLlama({gpu: false, build: "never", skipDownload: true, maxThreads: 1,
	logLevel: LlamaLogLevel.warn, logger: (level, message) => console.error(`${level}: ${message.trim()}`)});

for (const path of models) {
	const model = await llama.loadModel({modelPath: path, gpuLayers: 0});
	const context = await model.createContext({contextSize: model.trainContextSize, threads: 1, batchSize: 256,
		flashAttention: false, swaFullCache: true, experimentalKvCacheKeyType: "F32",
		experimentalKvCacheValueType: "F32"});
	const sequence = context.getSequence(), results = [];
	for (const [prompt, count] of Object.entries(prompts)) {
		const vocab = model.fileInfo.metadata.tokenizer.ggml.tokens.length;
		const ids = Array.from({length: count}, (_, i) => (7 + 31 * i + 5 * i * i) % vocab);
		const cont = [], top = [];
		await sequence.clearHistory();
		for await (const step of sequence.evaluateWithMetadata(ids, {probabilities: true},
			{temperature: 0, yieldEogToken: true})) {
			top.push([...step.probabilities].slice(0, 10).map(([id, p]) => [id, Number(Math.log(p).toFixed(5))]));
			cont.push(step.token);
			if (cont.length === steps) break;
		}
		results.push({prompt, ids, cont, top});
	}
	const sha256 = createHash("sha256").update(await readFile(path)).digest("hex");
	await writeFile(join(out, basename(path, ".gguf") + ".json"), JSON.stringify({sha256, results}) + "\n");
	await context.dispose();
	await model.dispose();
}
await llama.dispose();
