// Attention over a slot table. Below a row's shared count, position j is in slot table[j]; these are committed
// positions of the sequence. From the shared count on, the slots are in the row's ancestor list: its ancestors in the
// tree, the row itself last. No keys or values are copied. Positions are split at fixed multiples, and the parts are
// joined in order: a node deep in a tree and the same token in plain decoding are reduced in the same order. The
// first position of a sliding window depends only on the row's position.
struct Params {
    m: u32,      // rows of this dispatch
    heads: u32,  // query heads
    group: u32,  // query heads that share a key head
    width: u32,  // elements of a row of qkv
    stride: u32, // entries of an ancestor list
    scale: f32,  // of the dot products
    window: u32, // positions that a row attends to, its own included
    row0: u32,   // first row of this dispatch
    blocks: u32, // blocks of positions that a row's parts have room for
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>; // (m): position, slot, shared, identity prefix

// LOW is below every score.
const LOW: f32 = -3.0e38;

// The first position that a row attends to.
fn firstOf(position: u32) -> u32 { return max(position + 1u, P.window) - P.window; }
