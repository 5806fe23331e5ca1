/**
 * Reads metadata and tensors of a Llama model from a GGUF file, for the tensor types of the benchmark's models. The
 * format is described in ggml's docs/gguf.md.
 */

const F32 = 0;
const F16 = 1;
const Q8_0 = 8;

/** The size of each scalar type of metadata in bytes; 8 is a string, 9 an array. */
const SCALARS = {
  0: (v, at) => [v.getUint8(at), 1],
  1: (v, at) => [v.getInt8(at), 1],
  2: (v, at) => [v.getUint16(at, true), 2],
  3: (v, at) => [v.getInt16(at, true), 2],
  4: (v, at) => [v.getUint32(at, true), 4],
  5: (v, at) => [v.getInt32(at, true), 4],
  6: (v, at) => [v.getFloat32(at, true), 4],
  7: (v, at) => [v.getUint8(at) !== 0, 1],
  10: (v, at) => [Number(v.getBigUint64(at, true)), 8],
  11: (v, at) => [Number(v.getBigInt64(at, true)), 8],
  12: (v, at) => [v.getFloat64(at, true), 8],
};

/** Parses a file: `metadata` by key, `tensors` by name with dims (columns first, as in the file), type and bytes. */
export function parseGGUF(bytes, name) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = new TextDecoder();
  let at = 4;
  const fail = (why) => new Error(`peers: ${name}: ${why}`);
  if (bytes.length < 24 || text.decode(bytes.subarray(0, 4)) !== "GGUF") throw fail("is not a GGUF file");
  const u32 = () => view.getUint32((at += 4) - 4, true);
  const u64 = () => Number(view.getBigUint64((at += 8) - 8, true));
  const string = () => {
    const n = u64();
    return text.decode(bytes.subarray(at, (at += n)));
  };
  const value = (type) => {
    if (type === 8) return string();
    if (type === 9) {
      const of = u32();
      return Array.from({ length: u64() }, () => value(of));
    }
    const read = SCALARS[type];
    if (!read) throw fail(`a metadata value has the unknown type ${type}`);
    const [result, size] = read(view, at);
    at += size;
    return result;
  };
  const version = u32();
  if (version < 2 || version > 3) throw fail(`has version ${version}; 2 and 3 are read`);
  const count = u64();
  const metadata = new Map(Array.from({ length: u64() }, () => [string(), value(u32())]));
  const tensors = new Map();
  for (let i = 0; i < count; i++) {
    const tensor = { name: string(), dims: Array.from({ length: u32() }, u64), type: u32(), offset: u64() };
    tensors.set(tensor.name, tensor);
  }
  const alignment = metadata.get("general.alignment") ?? 32;
  const begin = Math.ceil(at / alignment) * alignment;
  for (const tensor of tensors.values()) {
    const size = sizeOf(tensor, fail);
    if (begin + tensor.offset + size > bytes.length) throw fail(`ends before ${tensor.name} does`);
    tensor.data = bytes.subarray(begin + tensor.offset, begin + tensor.offset + size);
  }
  return { name, metadata, tensors };
}

function sizeOf({ name, dims, type }, fail) {
  const weights = dims.reduce((a, b) => a * b, 1);
  switch (type) {
    case F32:
      return 4 * weights;
    case F16:
      return 2 * weights;
    case Q8_0:
      return 34 * (weights / 32);
    default:
      throw fail(`${name} has ggml type ${type}; F32, F16 and Q8_0 can be exported`);
  }
}

/** Converts a half-precision number. */
export function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

/** Returns a Q8_0 matrix: int8 `quants` (row, column) and `scales` (row, block of 32 columns); null for other types. */
export function quantised(tensor) {
  if (tensor.type !== Q8_0) return null;
  const [columns, rows = 1] = tensor.dims;
  const blocks = (columns / 32) * rows;
  const view = new DataView(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  const quants = new Int8Array(columns * rows);
  const scales = new Float32Array(blocks);
  for (let block = 0; block < blocks; block++) {
    scales[block] = half(view.getUint16(34 * block, true));
    for (let i = 0; i < 32; i++) quants[32 * block + i] = view.getInt8(34 * block + 2 + i);
  }
  return { rows, columns, quants, scales };
}

/** Returns a tensor as float32, row by row. */
export function floats(tensor) {
  const view = new DataView(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  const weights = tensor.dims.reduce((a, b) => a * b, 1);
  if (tensor.type === F32) return Float32Array.from({ length: weights }, (_, i) => view.getFloat32(4 * i, true));
  if (tensor.type === F16) return Float32Array.from({ length: weights }, (_, i) => half(view.getUint16(2 * i, true)));
  const { quants, scales } = quantised(tensor);
  return Float32Array.from(quants, (q, i) => q * scales[i >> 5]);
}
