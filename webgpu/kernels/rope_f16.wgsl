// KV cache in f16, two elements to a word.
fn storeKey(at: u32, v: vec2<f32>) { keys[at / 2u] = pack2x16float(v); }
fn storeValue(at: u32, v: vec2<f32>) { values[at / 2u] = pack2x16float(v); }
