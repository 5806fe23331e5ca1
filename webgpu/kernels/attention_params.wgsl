// Attention over a slot table. The keys of row m are its sequence's committed
// positions through the table, then its own ancestors in the tree, itself
// last: logical position j is in slot table[j] below the row's shared count and in
// its ancestor list from there on. Every kernel walks logical positions in
// order, so a node deep in a tree and the same token decoded plainly reduce
// in the same order. Nothing is masked and nothing is copied.
struct Params {
    m: u32,      // rows
    heads: u32,  // query heads
    group: u32,  // query heads that share a key head
    dim: u32,    // elements of a head
    width: u32,  // elements of a row of qkv
    span: u32,   // positions a row of scores has room for
    stride: u32, // entries of an ancestor list
    scale: f32,  // of the dot products
}
@group(0) @binding(0) var<uniform> P: Params;
