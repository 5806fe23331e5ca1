@group(0) @binding(5) var<storage, read> keys: array<u32>;   // (slots, heads/group, blocks, 1 + QUADS): f32 scale, then signed bytes, four to a word
@group(0) @binding(6) var<storage, read> values: array<u32>; // likewise

// A step is a block: its scale is read once.
alias Step = array<u32, STEP>;
fn keyStep(at: u32) -> Step {
    var s: Step;
    for (var w = 0u; w < STEP; w = w + 1u) { // unroll
        s[w] = keys[at * STEP + w];
    }
    return s;
}
fn valueStep(at: u32) -> Step {
    var s: Step;
    for (var w = 0u; w < STEP; w = w + 1u) { // unroll
        s[w] = values[at * STEP + w];
    }
    return s;
}
fn quadOf(s: Step, n: u32) -> vec4<f32> {
    var words = s; // what a function is given cannot be indexed
    return bitcast<f32>(words[0]) * bytes(words[n + 1u]);
}
// Reads a word of both, which brings their lines into the cache.
fn touch(word: u32) -> f32 { return f32(max(keys[word], values[word])); }
