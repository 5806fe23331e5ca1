@group(0) @binding(5) var<storage, read> keys: array<vec4<f32>>;   // (slots, heads/group·dim)
@group(0) @binding(6) var<storage, read> values: array<vec4<f32>>; // as keys

// A step is one read: QUADS times four elements.
alias Step = vec4<f32>;
fn keyStep(at: u32, kv: u32, i: u32) -> Step { return keys[at + kv * HEAD + i]; }
fn valueStep(at: u32, kv: u32, i: u32) -> Step { return values[at + kv * HEAD + i]; }
fn quadOf(s: Step, n: u32) -> vec4<f32> { return s; }
// touch reads a word of both, which loads their cache lines.
fn touch(word: u32) -> f32 { return max(keys[word / 4u].x, values[word / 4u].x); }
