@group(0) @binding(5) var<storage, read> keys: array<u32>;   // (slots, heads/group, blocks, 1 + KVQ): f32 scale, then signed bytes, four to a word
@group(0) @binding(6) var<storage, read> values: array<u32>; // likewise

// Where four elements' scale is, and where they are.
fn scaleAt(at: u32) -> u32 { return at / KVQ * (KVQ + 1u); }
fn wordAt(at: u32) -> u32 { return scaleAt(at) + 1u + at % KVQ; }
fn key(at: u32) -> vec4<f32> { return bitcast<f32>(keys[scaleAt(at)]) * bytes(keys[wordAt(at)]); }
fn value(at: u32) -> vec4<f32> { return bitcast<f32>(values[scaleAt(at)]) * bytes(values[wordAt(at)]); }
