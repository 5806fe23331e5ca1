struct Params {
    n: u32,     // weight rows of this dispatch: outputs a row of x
    steps: u32, // steps along a weight row
    m: u32,     // rows of x
    ldx: u32,   // distance between rows of x, in units of four
    x0: u32,    // first row's offset in x, in units of four
    ldo: u32,   // distance between rows of out
    out0: u32,  // first output's offset in out
    add: u32,   // 1: add to what is in out
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
