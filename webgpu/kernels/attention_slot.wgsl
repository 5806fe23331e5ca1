@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>; // (m): position, slot, shared, -
@group(0) @binding(2) var<storage, read> table: array<u32>;      // (span)
@group(0) @binding(3) var<storage, read> ancestors: array<u32>;  // (m, stride)

fn slotOf(m: u32, j: u32, shared_count: u32) -> u32 {
    if (j < shared_count) { return table[j]; }
    return ancestors[m * P.stride + j - shared_count];
}
