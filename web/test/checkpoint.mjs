/**
 * Checkpoints of safetensors in Chromium, by their address: the built-in draft written as one is the model that it was,
 * as it lies there and quantised while it is loaded.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { startHost } from "./host.mjs";
import { dist, limit, openPage, root, startBrowser } from "./site.mjs";

const model = path.join(root, "models", "demo", "draft-q8_0.gguf");
let folder, host, browser, page;

before(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-checkpoint-"));
  await promisify(execFile)("go", ["run", "./web/test/checkpoint", model, folder], { cwd: root });
  host = await startHost({ pages: { "/": "<!doctype html><title>a page with an engine</title>" }, folders: { "/foretoken/": dist, "/model/": folder, "/demo/": path.dirname(model) } });
  browser = await startBrowser(false);
  page = (await openPage(await browser.newContext())).page;
  await page.goto(host.url);
}, limit);

after(async () => {
  await browser?.close();
  await host?.stop();
  if (folder) await fs.rm(folder, { recursive: true, force: true });
});

/** What a model is said to be, and how it goes on with a prompt, greedy and drawn, with the likelihoods of what it says. */
const say = (target, quantise) =>
  page.evaluate(
    async ([target, quantise]) => {
      const { Foretoken } = await import("/foretoken/foretoken.js");
      const engine = await Foretoken.load({ target, quantise, device: "cpu", context: 128, cache: "off" });
      const texts = [];
      for (const temperature of [0, 0.8]) {
        const tokens = [];
        for await (const round of engine.generate("func main() {\n", { max_tokens: 8, temperature, seed: 2, policy: "none", logprobs: true })) tokens.push(...round.tokens);
        texts.push({ ids: tokens.map(({ id }) => id), logprobs: tokens.map(({ logprob }) => logprob) });
      }
      const { quant, parameters, vocab } = engine.info.target;
      const bytes = engine.info.gpu_bytes;
      await engine.dispose();
      return { quant, parameters, vocab, bytes, texts };
    },
    [target, quantise],
  );

test("a checkpoint is the model that it was written from, as it is and quantised while it is loaded", limit, async (t) => {
  const gguf = await say("/demo/draft-q8_0.gguf");
  for (const { ids, logprobs } of gguf.texts) assert.ok(ids.length === 8 && logprobs.every((one) => one < 0), JSON.stringify(gguf));
  assert.match(gguf.quant, /^Q8_0/i);
  // Its numbers are multiples of what Q8_0 stores, so the same blocks come of them, and the same bits of those.
  host.asked.length = 0;
  const quantised = await say("/model/model.safetensors", "q8_0");
  assert.deepEqual(quantised, gguf);
  for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]) assert.ok(host.asked.includes(`/model/${name}`), `${name} was asked for`);
  // The same numbers in more room; on the CPU they are multiplied alike.
  const whole = await say("/model/model.safetensors");
  assert.match(whole.quant, /^F(32|16)/i);
  assert.deepEqual([whole.parameters, whole.vocab], [gguf.parameters, gguf.vocab]);
  assert.deepEqual(whole.texts, gguf.texts);
  // What is beside the weights is the same: two bytes a weight and more are at least 0.9 more than Q8_0's.
  assert.ok(whole.bytes - gguf.bytes > 0.9 * gguf.parameters, `${whole.bytes} bytes, ${gguf.bytes} of them quantised, for ${gguf.parameters} weights`);
  t.diagnostic(`${whole.quant} and ${quantised.quant}: ${JSON.stringify(gguf.texts[0])}`);
});
