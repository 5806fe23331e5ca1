fn scaled(m: u32, at: u32, v: vec4<f32>) {}
fn summed(m: u32, step: u32, squares: f32) {}
