// Rotary position embedding of queries in place and of keys into the KV cache,
// and values into the cache unrotated. A thread takes four elements of one head:
// two pairs in the interleaved layout (2i, 2i+1), or 2i, 2i+1 and their partners half a head
// further on. Cosines and sines come from a table made in float64 on the
// host, since WGSL's own are only good to 2^-11.
struct Params {
    m: u32,       // rows
    heads: u32,   // query heads
    kv: u32,      // key heads, and as many value heads
    dim: u32,     // elements of a head
    half: u32,    // 1: half-split layout; 0: interleaved
    rotary: u32,  // elements of a head that are rotated, from the first
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;       // (m): position, slot, -, -
@group(0) @binding(2) var<storage, read> table: array<vec2<f32>>;      // (positions, rotary/2): cos, sin
@group(0) @binding(3) var<storage, read_write> qkv: array<f32>;        // (m, (heads+2·kv)·dim)
@group(0) @binding(4) var<storage, read_write> keys: array<u32>;       // (slots, kv·dim)
@group(0) @binding(5) var<storage, read_write> values: array<u32>;     // (slots, kv·dim)

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let quads = P.dim / 4u;
    let all = P.heads + 2u * P.kv;
    let head = gid.x / quads;
    let quad = gid.x % quads;
    let m = gid.y;
    if (head >= all) { return; }
    let at = (m * all + head) * P.dim;
    var i = quad * 4u;       // first two elements
    var j = i + 2u;          // other two
    var a: vec2<f32>;
    var b: vec2<f32>;
    if (P.half == 1u) {
        i = quad * 2u;
        j = i + P.rotary / 2u;
        if (i >= P.rotary / 2u) { // past the rotated part: the rest in order
            i = P.rotary + (quad - P.rotary / 4u) * 4u;
            j = i + 2u;
        }
    }
    a = vec2<f32>(qkv[at + i], qkv[at + i + 1u]);
    b = vec2<f32>(qkv[at + j], qkv[at + j + 1u]);
    let position = rows[m].x;
    if (head < P.heads + P.kv && i < P.rotary) {
        let pair = position * (P.rotary / 2u);
        if (P.half == 1u) {
            let f = table[pair + i];
            let g = table[pair + i + 1u];
            let c = vec2<f32>(f.x, g.x);
            let s = vec2<f32>(f.y, g.y);
            let t = a;
            a = a * c - b * s;
            b = t * s + b * c;
        } else {
            let f = table[pair + i / 2u];
            let g = table[pair + i / 2u + 1u];
            a = vec2<f32>(a.x * f.x - a.y * f.y, a.x * f.y + a.y * f.x);
            b = vec2<f32>(b.x * g.x - b.y * g.y, b.x * g.y + b.y * g.x);
        }
    }
    if (head < P.heads) {
        qkv[at + i] = a.x;
        qkv[at + i + 1u] = a.y;
        qkv[at + j] = b.x;
        qkv[at + j + 1u] = b.y;
        return;
    }
    let slot = rows[m].y * P.kv;
    if (head < P.heads + P.kv) {
        let o = (slot + head - P.heads) * P.dim;
        storeKey(o + i, a);
        storeKey(o + j, b);
    } else {
        let o = (slot + head - P.heads - P.kv) * P.dim;
        storeValue(o + i, a);
        storeValue(o + j, b);
    }
}
