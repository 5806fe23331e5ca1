// The table has a fixed size: Chromium's software adapter divides four times for each bounds check of a runtime-sized
// array, and the table is read for each position.
@group(0) @binding(2) var<storage, read> table: array<u32, CONTEXT>;
@group(0) @binding(3) var<storage, read> ancestors: array<u32>;  // (m, stride)
@group(0) @binding(4) var<storage, read> qkv: array<vec4<f32>>;  // (rows, width)

fn slotOf(m: u32, j: u32, shared_count: u32) -> u32 {
    if (j < shared_count) { return table[j]; }
    return ancestors[m * P.stride + j - shared_count];
}
