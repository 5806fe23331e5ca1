/** Unit tests of the benchmark: statistics, comparison, export and report. */
import assert from "node:assert/strict";
import test from "node:test";
import { configOf, llamaGraph, matrixOf } from "./onnx-graph.mjs";
import { floats, half, parseGGUF } from "./gguf.mjs";
import { parseOptions } from "./options.mjs";
import { cell, markdown, rows, sameness } from "./report.mjs";
import { agreement, median, rates, summary } from "./stats.mjs";

test("medians of odd and even counts", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
});

test("decode rates exclude the first tokens and the time before them", () => {
  const r = rates({ asked: 1000, first: 1500, end: 2500, tokens: 12, firstTokens: 2 });
  assert.deepEqual(r, { ttft_ms: 500, decode_tok_s: 10, whole_tok_s: 8 });
  assert.equal(rates({ asked: 0, first: 900, end: 900, tokens: 1, firstTokens: 1 }).decode_tok_s, null);
});

test("a summary has the median and the range, and ignores runs without a rate", () => {
  const runs = [10, null, 30, 20].map((decode_tok_s) => ({ ttft_ms: 1, whole_tok_s: 1, decode_tok_s }));
  assert.deepEqual(summary(runs).decode_tok_s, { median: 20, min: 10, max: 30, n: 3 });
  assert.equal(summary([{ ttft_ms: 1, whole_tok_s: 1, decode_tok_s: null }]).decode_tok_s, null);
});

test("ids are compared one by one up to the shorter end", () => {
  const reference = { ids: [5, 6, 7, 8], texts: ["a", "b", "c", "d"] };
  assert.deepEqual(agreement(reference, { ids: [5, 6, 7, 8] }), { at: -1, tokens: 4 });
  assert.deepEqual(agreement(reference, { ids: [5, 6] }), { at: -1, tokens: 2 });
  assert.deepEqual(agreement(reference, { ids: [5, 9, 7, 8] }), { at: 1, tokens: 4 });
});

test("texts are compared by the reference's tokens", () => {
  const reference = { ids: [1, 2, 3], texts: [", the", "re was", " a"] };
  assert.deepEqual(agreement(reference, { text: ", there was a" }), { at: -1, tokens: 3 });
  assert.deepEqual(agreement(reference, { text: ", there was a girl" }), { at: -1, tokens: 3 });
  assert.deepEqual(agreement(reference, { text: ", there" }), { at: -1, tokens: 1 }, "ended within the second token");
  assert.deepEqual(agreement(reference, { text: ", there is a" }), { at: 1, tokens: 2 });
  assert.deepEqual(agreement(reference, { text: "." }), { at: 0, tokens: 1 });
  assert.equal(agreement({ ids: [1] }, { text: "." }), undefined);
});

test("options select engines and models, and reject unknown names", () => {
  const defaults = parseOptions([]);
  assert.equal(defaults.engines.length, 19);
  assert.deepEqual(
    defaults.models.map((m) => m.name),
    ["x3m-f32", "x26m-q8_0", "x26m-q4_0", "x135m-q8_0", "built-in", "x135m-q4_k"],
  );
  assert.deepEqual(defaults.long, []);
  assert.deepEqual(
    parseOptions(["--long", "llama-n"]).long.map((e) => e.home),
    ["llama"],
  );
  const some = parseOptions([
    "--engines",
    "ort-webgpu, ours-1,ort-webgpu",
    "--models=built-in",
    "--repeat",
    "5",
    "--tokens",
    "64",
  ]);
  assert.deepEqual(
    some.engines.map((e) => e.name),
    ["ort-webgpu", "ours-1"],
  );
  assert.deepEqual([some.repeat, some.tokens, some.models.length], [5, 64, 1]);
  for (const [args, complaint] of [
    [["--engines", "llama"], /--engines: llama is unknown; want one of ours-1, /],
    [["--models", ""], /--models: empty/],
    [["--repeat", "0"], /--repeat: 0 is not an integer of at least 1/],
    [["--tokens", "1.5"], /--tokens: 1.5/],
    [["--adapter", "lavapipe"], /--adapter: lavapipe is neither/],
    [["--long", "llama"], /--long: llama is unknown/],
    [["--speed", "9"], /--speed/],
  ])
    assert.throws(() => parseOptions(args), complaint);
});

test("the table has ranges, ratios to plain decoding, differences and problems", () => {
  assert.equal(cell({ median: 12.34, min: 9.876, max: 123.4, n: 3 }), "12.3 (9.88–123)");
  assert.equal(cell({ median: 12.34, min: 12.34, max: 12.34, n: 1 }), "12.3");
  assert.equal(cell(null), "–");
  assert.equal(sameness({ at: 4, tokens: 9 }), "differs from token 5");
  const rate = (median) => ({ median, min: median, max: median, n: 1 });
  const row = (name, decode, more) => ({
    name,
    title: name,
    home: "Chromium",
    decode_tok_s: decode && rate(decode),
    ttft_ms: rate(5),
    whole_tok_s: rate(7),
    agreement: { at: -1, tokens: 8 },
    ...more,
  });
  const report = {
    machine: "2 × CPU",
    versions: { Foretoken: "1", other: "2" },
    memory: { one_gb_s: 10, all_gb_s: 20 },
    tokens: 8,
    repeat: 1,
    seconds: 2,
    warm: 3,
    models: [
      {
        name: "m",
        prompt_tokens: 3,
        weights: 1e8,
        engines: [
          row("ours-1", 20),
          row("fast-n", 50, { read: { tokens: 2000, ttft_ms: 4000 } }),
          { title: "broken", home: "native", problem: "no device" },
          row("slow", null, { read: { problem: "did not end" } }),
        ],
      },
    ],
  };
  const text = markdown(report);
  assert.match(text, /Foretoken 1, other 2/);
  assert.match(text, /\| ours-1, Chromium \| 20\.0 \| 1\.00× \| 5\.00 \| 7\.00 \| – \| 20 % \| same, 8 tokens \|/);
  assert.match(text, /\| fast-n, Chromium \| 50\.0 \| 2\.50× .*\| 500 \| 25 % \|/);
  assert.match(text, /\| broken, native \| – .*\| no device \|/);
  assert.match(text, /\| slow, Chromium \| – \| – .*\| did not end \| – \|/);
  const [model] = rows(report).models;
  assert.deepEqual([model.long_tokens, model.engines[1].prompt_tok_s, model.engines[1].of_memory], [2000, 500, 0.25]);
});

/** Returns a Llama model of one layer in GGUF: dim 32, one head, hidden 64, three words; matrices in Q8_0 or F32. */
function tinyGGUF(q8, change = {}) {
  const keys = {
    "general.architecture": "llama",
    "llama.embedding_length": 32,
    "llama.attention.head_count": 1,
    "llama.block_count": 1,
    "llama.context_length": 8,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.eos_token_id": 2,
    ...change,
  };
  const parts = [];
  const u32 = (n) => parts.push(Buffer.from(Uint32Array.of(n).buffer));
  const u64 = (n) => parts.push(Buffer.from(BigUint64Array.of(BigInt(n)).buffer));
  const string = (s) => (u64(Buffer.byteLength(s)), parts.push(Buffer.from(s)));
  const entries = Object.entries(keys).filter(([, value]) => value !== undefined);
  const tensors = [
    ["token_embd.weight", 32, 3],
    ["output_norm.weight", 32],
  ];
  for (const [name, ...dims] of [
    ["attn_norm", 32],
    ["attn_q", 32, 32],
    ["attn_k", 32, 32],
    ["attn_v", 32, 32],
    ["attn_output", 32, 32],
    ["ffn_norm", 32],
    ["ffn_gate", 32, 64],
    ["ffn_up", 32, 64],
    ["ffn_down", 64, 32],
  ])
    tensors.push([`blk.0.${name}.weight`, ...dims]);
  parts.push(Buffer.from("GGUF"));
  (u32(3), u64(tensors.length), u64(entries.length));
  for (const [key, value] of entries) {
    string(key);
    if (typeof value === "string") (u32(8), string(value));
    else if (Array.isArray(value)) (u32(9), u32(8), u64(value.length), value.forEach(string));
    else if (Number.isInteger(value)) (u32(4), u32(value));
    else (u32(6), parts.push(Buffer.from(Float32Array.of(value).buffer)));
  }
  const data = [];
  let offset = 0;
  for (const [name, ...dims] of tensors) {
    const weights = dims.reduce((a, b) => a * b, 1);
    const packed = q8 && dims.length === 2;
    (string(name), u32(dims.length), dims.forEach(u64), u32(packed ? 8 : 0), u64(offset));
    const bytes = packed
      ? Buffer.concat(
          Array.from({ length: weights / 32 }, (_, b) =>
            Buffer.from([0x00, 0x3c, ...Array.from({ length: 32 }, (_, i) => (b + i - 16) & 255)]),
          ),
        )
      : Buffer.from(Float32Array.from({ length: weights }, (_, i) => i).buffer);
    data.push(bytes, Buffer.alloc((32 - (bytes.length % 32)) % 32));
    offset += bytes.length + data.at(-1).length;
  }
  const head = Buffer.concat(parts);
  return Buffer.concat([head, Buffer.alloc((32 - (head.length % 32)) % 32), ...data]);
}

test("half-precision numbers, including subnormal ones", () => {
  for (const [bits, value] of [
    [0x3c00, 1],
    [0xc000, -2],
    [0x3555, 0.333251953125],
    [0x0001, 2 ** -24],
    [0x83ff, -1023 / 2 ** 24],
    [0x7c00, Infinity],
    [0x0000, 0],
  ])
    assert.equal(half(bits), value);
  assert.ok(Number.isNaN(half(0x7e00)));
});

test("a truncated or unsupported GGUF file is an error that names the problem", () => {
  const file = parseGGUF(tinyGGUF(true), "tiny.gguf");
  assert.deepEqual(file.tensors.get("blk.0.ffn_down.weight").dims, [64, 32]);
  assert.deepEqual([...floats(file.tensors.get("token_embd.weight")).slice(0, 3)], [-16, -15, -14]);
  assert.equal(configOf(file).headDim, 32);
  assert.throws(() => parseGGUF(Buffer.from("ELF!".padEnd(32)), "x.gguf"), /peers: x\.gguf: is not a GGUF file/);
  assert.throws(() => parseGGUF(tinyGGUF(true).subarray(0, -64), "x.gguf"), /x\.gguf: ends before .* does/);
  assert.throws(
    () => configOf(parseGGUF(tinyGGUF(true, { "llama.context_length": undefined }), "x.gguf")),
    /lacks llama\.context_length/,
  );
  assert.throws(() => configOf(parseGGUF(tinyGGUF(true, { "general.architecture": "qwen2" }), "x.gguf")), /only llama/);
  assert.throws(
    () => configOf(parseGGUF(tinyGGUF(true, { "llama.rope.scaling.type": "yarn" }), "x.gguf")),
    /scaled rotary/,
  );
});

test("rotary embeddings reorder each head's even rows before its odd ones", () => {
  const tensor = parseGGUF(tinyGGUF(false), "tiny.gguf").tensors.get("blk.0.attn_q.weight");
  const rows = (matrix) => Array.from({ length: 32 }, (_, r) => matrix.floats()[32 * r] / 32);
  assert.deepEqual(
    rows(matrixOf(tensor, 16)).slice(0, 18),
    [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 16, 18],
  );
  assert.deepEqual(rows(matrixOf(tensor)).slice(0, 3), [0, 1, 2]);
});

test("a graph defines every value before its use, and keeps the file's quants", () => {
  for (const q8 of [true, false]) {
    const { proto, model } = llamaGraph(parseGGUF(tinyGGUF(q8), "tiny.gguf"));
    const { node, initializer, input, output } = proto.graph;
    const known = new Set([...initializer, ...input].map((v) => v.name));
    for (const n of node) {
      for (const name of n.input) assert.ok(name === "" || known.has(name), `${n.name} reads ${name}`);
      n.output.forEach((name) => known.add(name));
    }
    for (const { name } of output) assert.ok(known.has(name), `${name} is made`);
    assert.equal(model.vocab, 3);
    assert.equal(node.filter((n) => n.opType === (q8 ? "MatMulNBits" : "MatMul")).length, 6);
    if (!q8) continue;
    const quants = initializer.find((t) => t.name === "blk.0.attn_output.quants");
    assert.deepEqual([...quants.rawData.slice(0, 3)], [112, 113, 114], "int8 moved by 128");
    const down = node.find((n) => n.input.includes("blk.0.ffn_down.quants"));
    assert.deepEqual(Object.fromEntries(down.attribute.map((a) => [a.name, a.i])), {
      K: 64,
      N: 32,
      bits: 8,
      block_size: 32,
      accuracy_level: 0,
    });
  }
});
