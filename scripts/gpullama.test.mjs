/** What the compiler says of llama.cpp's pipelines is read for the pipeline that it is of. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pipelines } from "./gpullama.mjs";

const stats = (registers) =>
  `\nCompute Shader:\n*** SHADER STATS ***\nPre-Sched VGPRs: 3\nVGPRs: ${registers}\nSpilled SGPRs: 1\n` +
  "Spilled VGPRs: 2\nLDS size: 512\nScratch size: 1024\nSubgroups per SIMD: 16\nInverse Throughput: 2228\n";

test("statistics go with the pipeline's name, and a product's with the rows it was first needed for", () => {
  const one = `ROWS 1\n${stats(24)}PIPELINE 7f\n`;
  const two = `ROWS 2\n${stats(48)}PIPELINE a0\nNAMED a0 mul_mat_vec_q8_0_f32_f32\n`;
  const rest = [3, 1024, 512, 16, 2228];
  assert.deepEqual(pipelines(`${one}NAMED 7f mul_mat_vec_q8_0_f32_f32\n${two}`), [
    ["mul_mat_vec_q8_0_f32_f32 M=1", [24, ...rest]],
    ["mul_mat_vec_q8_0_f32_f32 M=2", [48, ...rest]],
  ]);
  assert.deepEqual(pipelines(`${stats(24)}PIPELINE 7f\nNAMED 7f soft_max_f32\n`), [["soft_max_f32", [24, ...rest]]]);
  assert.throws(() => pipelines(one), /lacks a name/);
  assert.throws(() => pipelines("PIPELINE 7f\nNAMED 7f soft_max_f32\n"), /lacks a name or statistics/);
});
