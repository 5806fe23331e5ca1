// A step is a block: its scale is read once.
alias Word = u32;
fn quadOf(s: Step, n: u32) -> vec4<f32> {
    var words = s; // what a function is given cannot be indexed
    return bitcast<f32>(words[0]) * bytes(words[n + 1u]);
}
// Reads a word of both, which brings their lines into the cache.
fn touch(word: u32) -> f32 { return f32(max(keys[word], values[word])); }
