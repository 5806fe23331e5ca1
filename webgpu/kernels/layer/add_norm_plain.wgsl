fn added(row: u32, i: u32, v: f32) {}
fn summed(row: u32, lane: u32, squares: f32) {}
