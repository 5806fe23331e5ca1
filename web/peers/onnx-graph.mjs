/**
 * Builds an ONNX graph of a Llama model in the form of ONNX Runtime's model builder: packed QKV, GroupQueryAttention
 * with rotary embeddings, norms that add the residual, and KV caches as inputs and outputs. Q8_0 matrices stay
 * quantised (MatMulNBits: 8 bits, blocks of 32); others become float32.
 *
 * Operators: onnxruntime's docs/ContribOperators.md, domain com.microsoft.
 */
import { floats, quantised } from "./gguf.mjs";

const FLOAT = 1;
const UINT8 = 2;
const INT32 = 6;
const INT64 = 7;

/**
 * Returns the graph as a plain object of ONNX's ModelProto. With `dequantise` all matrices become float32, with the
 * same values.
 */
export function llamaGraph(file, { dequantise = false } = {}) {
  const model = configOf(file);
  const g = new Graph();
  const { dim, heads, kvHeads, headDim, layers, vocab, context, epsilon } = model;
  const half = headDim / 2;
  g.input("input_ids", INT64, [1, "sequence_length"]);
  g.input("seqlens_k", INT32, [1]);
  g.input("total_sequence_length", INT32, []);
  const tensor = (name) => {
    const found = file.tensors.get(name);
    if (!found) throw new Error(`peers: ${file.name}: has no tensor ${name}`);
    return found;
  };
  const vector = (name) => g.floats(name, floats(tensor(name)), [dim]);

  const angles = Float64Array.from(
    { length: context * half },
    (_, i) => Math.floor(i / half) * model.theta ** (-(2 * (i % half)) / headDim),
  );
  const cos = g.floats("cos_cache", Float32Array.from(angles, Math.cos), [context, half]);
  const sin = g.floats("sin_cache", Float32Array.from(angles, Math.sin), [context, half]);

  /** Multiplies with these matrices, stacked by rows. */
  const matmul = (label, x, matrices) => {
    const rows = matrices.reduce((n, m) => n + m.rows, 0);
    const columns = matrices[0].columns;
    if (!dequantise && matrices.every((m) => m.scales)) {
      const quants = joined(
        Uint8Array,
        matrices.map((m) => Uint8Array.from(m.quants, (q) => q + 128)),
      );
      return g.node(
        "MatMulNBits",
        [
          x,
          g.bytes(`${label}.quants`, quants, [rows, columns / 32, 32]),
          g.floats(
            `${label}.scales`,
            joined(
              Float32Array,
              matrices.map((m) => m.scales),
            ),
            [rows, columns / 32],
          ),
        ],
        { K: columns, N: rows, bits: 8, block_size: 32, accuracy_level: 0 },
        { domain: MICROSOFT },
      );
    }
    const all = joined(
      Float32Array,
      matrices.map((m) => m.floats()),
    );
    const turned = new Float32Array(all.length); // (columns, rows), as MatMul requires
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) turned[c * rows + r] = all[r * columns + c];
    return g.node("MatMul", [x, g.floats(`${label}.weight`, turned, [columns, rows])]);
  };
  /** Returns a matrix of the file; `perHead` reorders rows for rotary embeddings of halves instead of neighbours. */
  const matrix = (name, perHead = 0) => matrixOf(tensor(name), perHead);

  let residual = g.node(
    "Gather",
    [g.floats("token_embd", floats(tensor("token_embd.weight")), [vocab, dim]), "input_ids"],
    { axis: 0 },
  );
  let x = g.node("SimplifiedLayerNormalization", [residual, vector("blk.0.attn_norm.weight")], { axis: -1, epsilon });
  for (let i = 0; i < layers; i++) {
    const layer = `blk.${i}`;
    const part = (name) => `${layer}.${name}.weight`;
    const qkv = matmul(`${layer}.attn_qkv`, x, [
      matrix(part("attn_q"), headDim),
      matrix(part("attn_k"), headDim),
      matrix(part("attn_v")),
    ]);
    const past = ["key", "value"].map((kind) =>
      g.input(`past_key_values.${i}.${kind}`, FLOAT, [1, kvHeads, "past_sequence_length", headDim]),
    );
    const present = ["key", "value"].map((kind) =>
      g.output(`present.${i}.${kind}`, FLOAT, [1, kvHeads, "total_length", headDim]),
    );
    const attention = `${layer}.attention`;
    g.node(
      "GroupQueryAttention",
      [qkv, "", "", ...past, "seqlens_k", "total_sequence_length", cos, sin],
      { num_heads: heads, kv_num_heads: kvHeads, scale: 1 / Math.sqrt(headDim), do_rotary: 1, rotary_interleaved: 0 },
      { domain: MICROSOFT, outputs: [attention, ...present] },
    );
    const attended = matmul(`${layer}.attn_output`, attention, [matrix(part("attn_output"))]);
    [x, residual] = g.skipNorm(attended, residual, vector(part("ffn_norm")), epsilon);
    const gate = matmul(`${layer}.ffn_gate`, x, [matrix(part("ffn_gate"))]);
    const up = matmul(`${layer}.ffn_up`, x, [matrix(part("ffn_up"))]);
    const silu = g.node("Mul", [gate, g.node("Sigmoid", [gate])]);
    const down = matmul(`${layer}.ffn_down`, g.node("Mul", [silu, up]), [matrix(part("ffn_down"))]);
    [x, residual] = g.skipNorm(
      down,
      residual,
      vector(i + 1 < layers ? `blk.${i + 1}.attn_norm.weight` : "output_norm.weight"),
      epsilon,
    );
  }
  // Compute logits only for the last position.
  const last = g.node("Gather", [x, g.longs("last", [-1n], [1])], { axis: 1 });
  const head = file.tensors.has("output.weight") ? "output.weight" : "token_embd.weight";
  g.rename(matmul("output", last, [matrix(head)]), g.output("logits", FLOAT, [1, 1, vocab]));
  return { model, proto: g.proto(file.name) };
}

/** Reads shapes and constants of the architecture; throws if one is missing. */
export function configOf(file) {
  const { metadata } = file;
  const architecture = metadata.get("general.architecture");
  if (architecture !== "llama")
    throw new Error(`peers: ${file.name}: general.architecture is ${architecture}; only llama is exported`);
  const get = (key, other) => {
    const value = metadata.get(`llama.${key}`) ?? other;
    if (value === undefined) throw new Error(`peers: ${file.name}: metadata lacks llama.${key}`);
    return value;
  };
  if (
    [...metadata.keys()].some((key) => key.startsWith("llama.rope.scaling")) ||
    file.tensors.has("rope_freqs.weight")
  ) {
    throw new Error(`peers: ${file.name}: scaled rotary positions are not exported`);
  }
  const dim = get("embedding_length");
  const heads = get("attention.head_count");
  return {
    dim,
    heads,
    kvHeads: get("attention.head_count_kv", heads),
    headDim: get("attention.key_length", dim / heads),
    layers: get("block_count"),
    vocab: metadata.get("tokenizer.ggml.tokens")?.length ?? get("vocab_size"),
    context: get("context_length"),
    epsilon: get("attention.layer_norm_rms_epsilon"),
    theta: get("rope.freq_base", 10000),
    eos: metadata.get("tokenizer.ggml.eos_token_id"),
  };
}

/**
 * Returns the rows of `tensor`. Llama files rotate neighbours (2i, 2i+1), and ONNX Runtime rotates (i, i + headDim/2),
 * so with `headDim` each head's even rows come before its odd ones.
 */
export function matrixOf(tensor, headDim = 0) {
  const [columns, rows] = tensor.dims;
  const order = Array.from({ length: rows }, (_, r) => {
    if (!headDim) return r;
    const i = r % headDim;
    return r - i + (i < headDim / 2 ? 2 * i : 2 * (i - headDim / 2) + 1);
  });
  const pick = (from, width) => {
    const out = new from.constructor(from.length);
    order.forEach((source, to) => out.set(from.subarray(source * width, (source + 1) * width), to * width));
    return out;
  };
  const q = quantised(tensor);
  if (q) {
    const quants = pick(q.quants, columns);
    const scales = pick(q.scales, columns / 32);
    return {
      rows,
      columns,
      quants,
      scales,
      floats: () => Float32Array.from(quants, (value, i) => value * scales[i >> 5]),
    };
  }
  return { rows, columns, floats: () => pick(floats(tensor), columns) };
}

const MICROSOFT = "com.microsoft";

function joined(Kind, parts) {
  const all = new Kind(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Collects nodes and tensors; values have names. */
class Graph {
  #nodes = [];
  #initializers = [];
  #names = new Set();
  #inputs = [];
  #outputs = [];

  input(name, type, shape) {
    this.#inputs.push(valueInfo(name, type, shape));
    return name;
  }

  output(name, type, shape) {
    this.#outputs.push(valueInfo(name, type, shape));
    return name;
  }

  node(opType, inputs, attributes = {}, { domain = "", outputs = [`v${this.#nodes.length}`] } = {}) {
    this.#nodes.push({
      opType,
      domain,
      name: `${opType}_${this.#nodes.length}`,
      input: inputs,
      output: outputs,
      attribute: Object.entries(attributes).map(attribute),
    });
    return outputs[0];
  }

  /** Adds norm(x + residual) and x + residual. */
  skipNorm(x, residual, gamma, epsilon) {
    const n = this.#nodes.length;
    const outputs = [`v${n}`, "", "", `v${n}.sum`];
    this.node("SkipSimplifiedLayerNormalization", [x, residual, gamma], { epsilon }, { domain: MICROSOFT, outputs });
    return [outputs[0], outputs[3]];
  }

  /** Renames the output of the last node. */
  rename(from, to) {
    const { output } = this.#nodes.at(-1);
    output[output.indexOf(from)] = to;
  }

  floats(name, data, dims) {
    return this.#tensor(name, FLOAT, data, dims);
  }

  bytes(name, data, dims) {
    return this.#tensor(name, UINT8, data, dims);
  }

  longs(name, data, dims) {
    return this.#tensor(name, INT64, BigInt64Array.from(data), dims);
  }

  #tensor(name, dataType, data, dims) {
    if (!this.#names.has(name)) {
      this.#names.add(name);
      this.#initializers.push({
        name,
        dataType,
        dims,
        rawData: new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
      });
    }
    return name;
  }

  proto(name) {
    return {
      irVersion: 8,
      producerName: "foretoken",
      opsetImport: [
        { domain: "", version: 17 },
        { domain: MICROSOFT, version: 1 },
      ],
      graph: { name, node: this.#nodes, initializer: this.#initializers, input: this.#inputs, output: this.#outputs },
    };
  }
}

function valueInfo(name, elemType, shape) {
  const dim = shape.map((d) => (typeof d === "string" ? { dimParam: d } : { dimValue: d }));
  return { name, type: { tensorType: { elemType, shape: { dim } } } };
}

/** Returns an attribute; an integer value is an int, except for epsilon and scale. */
function attribute([name, value]) {
  if (name === "epsilon" || name === "scale") return { name, type: 1, f: value };
  return { name, type: 2, i: value };
}
