// Rotary position embedding of queries in place and of keys into the KV cache; values go to the cache unrotated. A
// thread processes four elements of one head: two pairs in the interleaved layout (2i, 2i+1), or 2i, 2i+1 and their
// partners half the rotated part further on. Cosines and sines come from a table that the host computes in float64:
// those of WGSL are only accurate to 2^-11.
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let quads = P.dim / 4u;
    let all = P.heads + 2u * P.kv;
    let head = gid.x / quads;
    let quad = gid.x % quads;
    let m = gid.y;
    if (head >= all) { return; }
    let base = m * all * P.dim;
    let at = head * P.dim;
    var i = quad * 4u;       // first two elements
    var j = i + 2u;          // other two
    if (P.half == 1u) {
        i = quad * 2u;
        j = i + P.rotary / 2u;
        if (i >= P.rotary / 2u) { // past the rotated part: the rest in order
            i = P.rotary + (quad - P.rotary / 4u) * 4u;
            j = i + 2u;
        }
    }
    var a = input(base, at + i);
    var b = input(base, at + j);
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
        a = gained(0u, i, a);
        b = gained(0u, j, b);
        qkv[base + at + i] = a.x;
        qkv[base + at + i + 1u] = a.y;
        qkv[base + at + j] = b.x;
        qkv[base + at + j + 1u] = b.y;
        return;
    }
    let slot = rows[m].y * P.kv;
    if (head < P.heads + P.kv) {
        let o = (slot + head - P.heads) * P.dim;
        storeKey(o + i, gained(1u, i, a));
        storeKey(o + j, gained(1u, j, b));
    } else {
        let o = (slot + head - P.heads - P.kv) * P.dim;
        storeValue(o + i, a);
        storeValue(o + j, b);
    }
}
