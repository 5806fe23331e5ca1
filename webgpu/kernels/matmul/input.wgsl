@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
