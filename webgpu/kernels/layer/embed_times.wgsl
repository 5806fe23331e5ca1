// Multiplies the row, in place of what embed.wgsl wrote before.
fn scaled(m: u32, at: u32, v: vec4<f32>) { out[m * P.steps * PARTS + at] = v * TIMES; }
fn summed(m: u32, step: u32, squares: f32) {}
