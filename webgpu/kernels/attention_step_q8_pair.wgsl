// A step is two blocks. A read brings two words: Mesa's software adapter reads in a loop over the lanes, whatever it reads.
alias Word = vec2<u32>;
fn quadOf(s: Step, n: u32) -> vec4<f32> {
    var words = s; // what a function is given cannot be indexed
    let scale = n / KVQ * (KVQ + 1u);
    let word = scale + 1u + n % KVQ;
    return bitcast<f32>(words[scale / 2u][scale % 2u]) * bytes(words[word / 2u][word % 2u]);
}
// Reads a word of both, which brings their lines into the cache.
fn touch(word: u32) -> f32 { return f32(max(keys[word / 2u].x, values[word / 2u].x)); }
