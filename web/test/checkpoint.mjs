/**
 * Safetensors checkpoints in Chromium, loaded by address: the built-in draft, converted to a checkpoint, gives the same
 * output, as stored and quantised during the load.
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
  host = await startHost({
    pages: { "/": "<!doctype html><title>a page with an engine</title>" },
    folders: { "/foretoken/": dist, "/model/": folder, "/demo/": path.dirname(model) },
  });
  browser = await startBrowser(false);
  page = (await openPage(await browser.newContext())).page;
  await page.goto(host.url);
}, limit);

after(async () => {
  await browser?.close();
  await host?.stop();
  if (folder) await fs.rm(folder, { recursive: true, force: true });
});

/** Returns a model's description and its continuations of a prompt, greedy and sampled, with log-probabilities. */
const say = (target, quantise) =>
  page.evaluate(
    async ([target, quantise]) => {
      const { Foretoken } = await import("/foretoken/foretoken.js");
      const engine = await Foretoken.load({ target, quantise, device: "reference", context: 128, cache: "off" });
      const texts = [];
      for (const temperature of [0, 0.8]) {
        const tokens = [];
        for await (const round of engine.generate("func main() {\n", {
          max_tokens: 8,
          temperature,
          seed: 2,
          policy: "none",
          logprobs: true,
        }))
          tokens.push(...round.tokens);
        texts.push({ ids: tokens.map(({ id }) => id), logprobs: tokens.map(({ logprob }) => logprob) });
      }
      const { quant, parameters, vocab } = engine.info.target;
      const bytes = engine.info.gpu_bytes;
      await engine.dispose();
      return { quant, parameters, vocab, bytes, texts };
    },
    [target, quantise],
  );

test(
  "a checkpoint equals the model that it was converted from, as stored and quantised during the load",
  limit,
  async (t) => {
    const gguf = await say("/demo/draft-q8_0.gguf");
    for (const { ids, logprobs } of gguf.texts)
      assert.ok(ids.length === 8 && logprobs.every((one) => one < 0), JSON.stringify(gguf));
    assert.match(gguf.quant, /^Q8_0/i);
    // Its numbers are multiples of Q8_0's scales, so quantising gives the same blocks and the same bits.
    host.asked.length = 0;
    const quantised = await say("/model/model.safetensors", "q8_0");
    assert.deepEqual(quantised, gguf);
    for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
      assert.ok(host.asked.includes(`/model/${name}`), `${name} was requested`);
    // The same numbers in a larger type; references multiply them in the same way.
    const whole = await say("/model/model.safetensors");
    assert.match(whole.quant, /^F(32|16)/i);
    assert.deepEqual([whole.parameters, whole.vocab], [gguf.parameters, gguf.vocab]);
    assert.deepEqual(whole.texts, gguf.texts);
    // Other memory is equal: two bytes per weight are at least 0.9 bytes more than Q8_0 takes.
    assert.ok(
      whole.bytes - gguf.bytes > 0.9 * gguf.parameters,
      `${whole.bytes} bytes, ${gguf.bytes} of them quantised, for ${gguf.parameters} weights`,
    );
    t.diagnostic(`${whole.quant} and ${quantised.quant}: ${JSON.stringify(gguf.texts[0])}`);
  },
);
