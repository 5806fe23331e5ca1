/**
 * GGUF files for the loading tests, made from the built-in target: the same model in a larger file, and a large model
 * whose weights are zero.
 */
import { promises as fs } from "node:fs";

const MiB = 1 << 20;

/** Parses a header: metadata as raw bytes by key, and the tensors. */
function parse(data) {
  let at = 8;
  const u32 = () => data.readUInt32LE((at += 4) - 4);
  const u64 = () => Number(data.readBigUInt64LE((at += 8) - 8));
  const text = () => {
    const n = u64();
    return data.toString("utf8", at, (at += n));
  };
  const widths = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
  const skip = (type) => {
    if (type === 8) text();
    else if (type === 9) {
      const of = u32();
      for (let n = u64(); n > 0; n--) skip(of);
    } else at += widths[type];
  };
  const tensors = u64();
  const keys = u64();
  const metadata = new Map();
  for (let i = 0; i < keys; i++) {
    const start = at;
    const key = text();
    skip(u32());
    metadata.set(key, data.subarray(start, at));
  }
  const list = [];
  for (let i = 0; i < tensors; i++) {
    const name = text();
    const dims = Array.from({ length: u32() }, u64);
    list.push({ name, dims, type: u32(), offset: u64() });
  }
  const begin = Math.ceil(at / 32) * 32;
  const offsets = [...list.map((t) => t.offset), data.length - begin].sort((a, b) => a - b);
  for (const t of list) t.data = data.subarray(begin + t.offset, begin + offsets.find((o) => o > t.offset));
  return { metadata, tensors: list };
}

const string = (text) => {
  const bytes = Buffer.from(text);
  const out = Buffer.alloc(8 + bytes.length);
  out.writeBigUInt64LE(BigInt(bytes.length));
  bytes.copy(out, 8);
  return out;
};
const u32 = (n) => {
  const out = Buffer.alloc(4);
  out.writeUInt32LE(n);
  return out;
};
const u64 = (n) => {
  const out = Buffer.alloc(8);
  out.writeBigUInt64LE(BigInt(n));
  return out;
};
const numberKey = (key, n) => Buffer.concat([string(key), u32(4), u32(n)]);

/** Returns the header of a file with these tensors, each of `bytes` bytes, and the offset of their data. */
function header(metadata, tensors, align) {
  const all = new Map(metadata).set("general.alignment", numberKey("general.alignment", align));
  const up = (n) => Math.ceil(n / align) * align;
  let offset = 0;
  const infos = tensors.map((t) => {
    t.at = offset;
    offset = up(offset + t.bytes);
    return Buffer.concat([string(t.name), u32(t.dims.length), ...t.dims.map(u64), u32(t.type), u64(t.at)]);
  });
  const head = Buffer.concat([
    Buffer.from("GGUF"),
    u32(3),
    u64(tensors.length),
    u64(all.size),
    ...all.values(),
    ...infos,
  ]);
  const begin = up(head.length);
  return { head, begin, size: begin + offset };
}

/** Returns a file with another name and other texts in its metadata; null removes one. */
export function named(file, name, texts) {
  const { metadata, tensors } = parse(file);
  for (const [key, text] of Object.entries({ "general.name": name, ...texts }))
    if (text === null) metadata.delete(key);
    else metadata.set(key, Buffer.concat([string(key), u32(8), string(text)]));
  return packed(metadata, tensors, 32);
}

/** Returns a file that says that its model was trained for so many positions. */
export function trainedFor(file, positions) {
  const { metadata, tensors } = parse(file);
  const key = [...metadata.keys()].find((key) => key.endsWith(".context_length"));
  metadata.set(key, numberKey(key, positions));
  return packed(metadata, tensors, 32);
}

/** Returns a file whose weights are zero: its model predicts the same tokens after every text. */
export function muted(file) {
  const { metadata, tensors } = parse(Buffer.from(file));
  for (const { data } of tensors) data.fill(0);
  return packed(metadata, tensors, 32);
}

/** Spreads the built-in target over many chunks: tensors are `align` bytes apart, and `more` bytes follow them. */
export async function spread(source, align = MiB, more = 0) {
  const { metadata, tensors } = parse(await fs.readFile(source));
  return packed(metadata, tensors, align, more);
}

/** Returns a file with these tensors `align` bytes apart, and `more` bytes after them. */
function packed(metadata, tensors, align, more = 0) {
  for (const t of tensors) t.bytes = t.data.length;
  const { head, begin, size } = header(metadata, tensors, align);
  const out = Buffer.alloc(size + more);
  head.copy(out);
  for (const t of tensors) t.data.copy(out, begin + t.at);
  return out;
}

/**
 * Writes a Llama model of about `target` bytes in F16 with the built-in target's vocabulary. All weights are 0 and
 * holes of the file. Loading reads every byte.
 */
export async function zeros(source, to, target) {
  const { metadata } = parse(await fs.readFile(source));
  const dim = 1024;
  const ffn = 4096;
  const vocab = 4096;
  const heads = 16;
  const layer = 2 * (4 * dim * dim + 3 * dim * ffn) + 8 * dim;
  const layers = Math.round((target - 2 * vocab * dim * 2) / layer);
  const set = (key, n) => metadata.set(`llama.${key}`, numberKey(`llama.${key}`, n));
  for (const key of [...metadata.keys()])
    if (/^llama\.(attention\.(key|value)_length|rope\.dimension_count)$/.test(key)) metadata.delete(key);
  set("embedding_length", dim);
  set("feed_forward_length", ffn);
  set("block_count", layers);
  set("attention.head_count", heads);
  set("attention.head_count_kv", heads);
  set("rope.dimension_count", dim / heads);
  const tensors = [];
  const matrix = (name, cols, rows) => tensors.push({ name, dims: [cols, rows], type: 1, bytes: 2 * cols * rows });
  const vector = (name) => tensors.push({ name, dims: [dim], type: 0, bytes: 4 * dim });
  matrix("token_embd.weight", dim, vocab);
  for (let i = 0; i < layers; i++) {
    vector(`blk.${i}.attn_norm.weight`);
    for (const part of ["attn_q", "attn_k", "attn_v", "attn_output"]) matrix(`blk.${i}.${part}.weight`, dim, dim);
    vector(`blk.${i}.ffn_norm.weight`);
    matrix(`blk.${i}.ffn_gate.weight`, dim, ffn);
    matrix(`blk.${i}.ffn_up.weight`, dim, ffn);
    matrix(`blk.${i}.ffn_down.weight`, ffn, dim);
  }
  vector("output_norm.weight");
  matrix("output.weight", dim, vocab);
  const { head, size } = header(metadata, tensors, 32);
  const file = await fs.open(to, "w");
  await file.write(head, 0, head.length, 0);
  await file.truncate(size);
  await file.close();
  return size;
}
