struct Params {
    n: u32,       // weight rows of this dispatch
    steps: u32,   // steps along a weight row
    m: u32,       // rows of x
    ldx: u32,     // distance between rows of x, in units of four
    x0: u32,      // first row's offset in x, in units of four
    ldo: u32,     // distance between rows of out
    out0: u32,    // first output's offset in out
    add: u32,     // 1: add to out
    squares: u32, // number of sums of squares behind each row of x, see norm.wgsl; 0: none
    eps: f32,     // of the norm of x
    head: u32,    // weight rows of a head, or all
    paired: u32,  // leading rows of a head whose row i is paired with row i + paired/2
    ldn: u32,     // distance between rows of the next product's input
    heads: u32,   // query heads
    kv: u32,      // key heads, and as many value heads
    rotary: u32,  // elements of a head that are rotated, from the first
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
