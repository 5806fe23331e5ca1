// A slot: f32 scales of blocks (heads/group, dim/block), then signed bytes (heads/group, dim), four to a word.
@group(0) @binding(5) var<storage, read> keys: array<Words>;
@group(0) @binding(6) var<storage, read> values: array<Words>; // as keys

// A step is BLOCKS blocks, with all their scales in one read.
struct Step { scales: array<f32, BLOCKS>, words: array<Words, STEP> }
// scaleOf returns the index of a step's first scale in its slot, wordOfScale the word of that scale in its read.
fn scaleOf(kv: u32, i: u32) -> u32 { return (kv * STEPS + i) * BLOCKS; }
fn wordOfScale(kv: u32, i: u32) -> u32 { return (kv * STEPS + i) % (READ / BLOCKS) * BLOCKS; }
fn keyStep(at: u32, kv: u32, i: u32) -> Step {
    var s: Step;
    let scales = keys[at + scaleOf(kv, i) / READ];
    for (var b = 0u; b < BLOCKS; b = b + 1u) { // unroll
        s.scales[b] = bitcast<f32>(wordOf(scales, wordOfScale(kv, i) + b));
    }
    for (var w = 0u; w < STEP; w = w + 1u) { // unroll
        s.words[w] = keys[at + LEAD + kv * HEAD + i * STEP + w];
    }
    return s;
}
fn valueStep(at: u32, kv: u32, i: u32) -> Step {
    var s: Step;
    let scales = values[at + scaleOf(kv, i) / READ];
    for (var b = 0u; b < BLOCKS; b = b + 1u) { // unroll
        s.scales[b] = bitcast<f32>(wordOf(scales, wordOfScale(kv, i) + b));
    }
    for (var w = 0u; w < STEP; w = w + 1u) { // unroll
        s.words[w] = values[at + LEAD + kv * HEAD + i * STEP + w];
    }
    return s;
}
fn quadOf(step: Step, n: u32) -> vec4<f32> {
    var s = step; // parameters allow only literal indices
    return s.scales[n / KVQ] * bytes(wordOf(s.words[n / READ], n % READ));
}
// touch reads a word of both, which loads their cache lines.
fn touch(word: u32) -> f32 { return f32(max(wordOf(keys[word / READ], 0u), wordOf(values[word / READ], 0u))); }
