@group(0) @binding(5) var<storage, read> keys: array<vec2<u32>>;   // (slots, heads/group, blocks, 1 + KVQ): f32 scale, then signed bytes, four to a word
@group(0) @binding(6) var<storage, read> values: array<vec2<u32>>; // likewise

// A step is two blocks. A read brings two words: Mesa's software adapter reads in a loop over the lanes, whatever it reads.
alias Step = array<vec2<u32>, STEP>;
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
    let scale = n / KVQ * (KVQ + 1u);
    let word = scale + 1u + n % KVQ;
    return bitcast<f32>(words[scale / 2u][scale % 2u]) * bytes(words[word / 2u][word % 2u]);
}
// Reads a word of both, which brings their lines into the cache.
fn touch(word: u32) -> f32 { return f32(max(keys[word / 2u].x, values[word / 2u].x)); }
