@group(0) @binding(5) var<storage, read> keys: array<Word>;   // (slots, heads/group, blocks, 1 + KVQ): f32 scale, then signed bytes, four to 32 bits
@group(0) @binding(6) var<storage, read> values: array<Word>; // likewise

// A step is STEP reads, of a Word each.
alias Step = array<Word, STEP>;
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
