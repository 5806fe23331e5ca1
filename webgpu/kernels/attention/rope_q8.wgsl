// Rotary position embedding as in rope.wgsl, with a cache of signed bytes. A block has 4·KVQ elements. A slot holds the
// f32 scales of all its blocks, each the largest magnitude over 127, then KVQ words of four bytes for each block. A
// thread processes four neighbouring elements of a query, or one block of a key or value, so that a block depends only
// on its own elements.

// Elements e and e+1 of a head, rotated in either layout.
fn neighbours(base: u32, at: u32, e: u32, position: u32) -> vec2<f32> {
    if (e >= P.rotary) { return input(base, at + e); }
    let half = P.rotary / 2u;
    let angles = position * half;
    if (P.half == 0u) {
        let v = input(base, at + e);
        let f = table[angles + e / 2u];
        return vec2<f32>(v.x * f.x - v.y * f.y, v.x * f.y + v.y * f.x);
    }
    let second = e >= half;
    let first = select(e, e - half, second);
    let a = input(base, at + first);
    let b = input(base, at + first + half);
    let f = table[angles + first];
    let g = table[angles + first + 1u];
    if (second) { return vec2<f32>(a.x * f.y + b.x * f.x, a.y * g.y + b.y * g.x); }
    return vec2<f32>(a.x * f.x - b.x * f.y, a.y * g.x - b.y * g.y);
}

fn signedByte(v: f32) -> u32 { return bitcast<u32>(i32(clamp(floor(v + 0.5), -127.0, 127.0))) & 255u; }

fn rotateQuery(base: u32, head: u32, quad: u32, position: u32) {
    let at = head * P.dim;
    var i = quad * 4u;
    var j = i + 2u;
    if (P.half == 1u) { // a thread also processes the partners, because no other thread may read what it writes
        i = quad * 2u;
        j = i + P.rotary / 2u;
        if (i >= P.rotary / 2u) {
            i = P.rotary + (quad - P.rotary / 4u) * 4u;
            j = i + 2u;
        }
    }
    let a = gained(0u, i, neighbours(base, at, i, position));
    let b = gained(0u, j, neighbours(base, at, j, position));
    qkv[base + at + i] = a.x;
    qkv[base + at + i + 1u] = a.y;
    qkv[base + at + j] = b.x;
    qkv[base + at + j + 1u] = b.y;
}

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let m = gid.y;
    let base = m * (P.heads + 2u * P.kv) * P.dim;
    let queries = P.heads * P.dim / 4u;
    if (gid.x < queries) {
        rotateQuery(base, gid.x / (P.dim / 4u), gid.x % (P.dim / 4u), rows[m].x);
        return;
    }
    let blocks = P.dim / (4u * KVQ);
    let head = (gid.x - queries) / blocks; // keys, then values
    if (head >= 2u * P.kv) { return; }
    let block = (gid.x - queries) % blocks;
    let at = (P.heads + head) * P.dim;
    var v: array<vec4<f32>, KVQ>;
    var most = 0.0;
    for (var q = 0u; q < KVQ; q = q + 1u) { // unroll
        let e = (block * KVQ + q) * 4u;
        if (head < P.kv) {
            v[q] = vec4<f32>(gained(1u, e, neighbours(base, at, e, rows[m].x)),
                gained(1u, e + 2u, neighbours(base, at, e + 2u, rows[m].x)));
        } else {
            v[q] = vec4<f32>(input(base, at + e), input(base, at + e + 2u));
        }
        let size = abs(v[q]);
        most = max(most, max(max(size.x, size.y), max(size.z, size.w)));
    }
    var inverse = 0.0;
    if (most > 0.0) { inverse = 127.0 / most; }
    let own = head % P.kv * blocks + block; // of the slot's blocks
    let scale = rows[m].y * SLOT + own;
    let o = rows[m].y * SLOT + LEAD + own * KVQ;
    if (head < P.kv) { keys[scale] = bitcast<u32>(most / 127.0); } else { values[scale] = bitcast<u32>(most / 127.0); }
    for (var q = 0u; q < KVQ; q = q + 1u) { // unroll
        let s = v[q] * inverse;
        let word = signedByte(s.x) | (signedByte(s.y) << 8u) | (signedByte(s.z) << 16u) | (signedByte(s.w) << 24u);
        if (head < P.kv) { keys[o + q] = word; } else { values[o + q] = word; }
    }
}
