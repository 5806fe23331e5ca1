// Chromium's software adapter divides four times for each bounds check of a runtime-sized array, so x has a fixed size.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>, WINDOW>;
