// A slot: f32 scales of blocks (heads/group, dim/block), then signed bytes (heads/group, dim), four to a word.
@group(0) @binding(5) var<storage, read> keys: array<u32>;
@group(0) @binding(6) var<storage, read> values: array<u32>; // as keys

// scaleAt returns the word of the scale of four elements, wordAt the word of the elements.
fn scaleAt(at: u32) -> u32 { return at / (SLOT - LEAD) * SLOT + at % (SLOT - LEAD) / KVQ; }
fn wordAt(at: u32) -> u32 { return at / (SLOT - LEAD) * SLOT + LEAD + at % (SLOT - LEAD); }
fn key(at: u32) -> vec4<f32> { return bitcast<f32>(keys[scaleAt(at)]) * bytes(keys[wordAt(at)]); }
fn value(at: u32) -> vec4<f32> { return bitcast<f32>(values[scaleAt(at)]) * bytes(values[wordAt(at)]); }
