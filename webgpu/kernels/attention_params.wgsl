// Attention over a slot table. The keys of row m are its sequence's committed
// positions through the table, then its own ancestors in the tree, itself
// last: logical position j is in slot table[j] below the row's shared count and in
// its ancestor list from there on. Positions are split at fixed ones, whatever row is
// computed, and what a part of them gives is joined in order: a node deep in a tree and
// the same token decoded plainly reduce in the same order. Nothing is copied. With a sliding
// window a row's first position is the window's, which follows from its own position alone.
struct Params {
    m: u32,      // rows of this dispatch
    heads: u32,  // query heads
    group: u32,  // query heads that share a key head
    width: u32,  // elements of a row of qkv
    stride: u32, // entries of an ancestor list
    scale: f32,  // of the dot products
    window: u32, // positions a row sees, itself included
    row0: u32,   // first row of this dispatch
    blocks: u32, // blocks of positions that a row's parts have room for
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>; // (m): position, slot, shared, straight

// LOW is below every score.
const LOW: f32 = -3.0e38;

// The first position that a row sees.
fn firstOf(position: u32) -> u32 { return max(position + 1u, P.window) - P.window; }
