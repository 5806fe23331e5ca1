// Chromium's software adapter divides four times wherever it needs the length of an array that has none as a constant.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>, WINDOW>;
