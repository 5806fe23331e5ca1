// finish of a product of queries, keys and values, as in rope.wgsl: it writes rotated queries to out, and rotated keys
// and unrotated values to the cache. A tile is in one head and has both elements of each pair: neighbours, or elements
// half the rotated part apart.
@group(0) @binding(5) var<storage, read> rows: array<vec4<u32>>;         // (m): position, slot, -, -
@group(0) @binding(6) var<storage, read> table: array<vec2<f32>>;        // (positions, rotary/2): cos, sin
@group(0) @binding(7) var<storage, read_write> keys: array<u32>;         // (slots, kv·head)
@group(0) @binding(8) var<storage, read_write> values: array<u32>;       // as keys

fn finish(m: u32, tile: u32, sums: array<f32, R>) {
    var v = sums; // parameters allow only literal indices
    let n = tile * R;
    if (n >= P.n) { return; }
    let head = n / P.head;
    let e = n % P.head;
    let row = rows[m];
    if (head < P.heads + P.kv && e < P.rotary) {
        let angle = (row.x * P.rotary + e) / 2u;
        for (var i = 0u; i < HALF; i = i + 1u) { // unroll
            let f = table[angle + i];
            if (PAIRED) {
                let a = v[i];
                let b = v[i + HALF];
                v[i] = a * f.x - b * f.y;
                v[i + HALF] = a * f.y + b * f.x;
            } else {
                let a = v[2u * i];
                let b = v[2u * i + 1u];
                v[2u * i] = a * f.x - b * f.y;
                v[2u * i + 1u] = a * f.y + b * f.x;
            }
        }
    }
    for (var i = 0u; i < HALF; i = i + 1u) { // unroll
        let at = weightRow(tile, 2u * i); // v[2i] and v[2i+1] are neighbours in either layout
        if (head < P.heads) {
            let o = P.out0 + m * P.ldo + at;
            out[o] = v[2u * i];
            out[o + 1u] = v[2u * i + 1u];
        } else if (head < P.heads + P.kv) {
            storeKey((row.y * P.kv - P.heads) * P.head + at, vec2<f32>(v[2u * i], v[2u * i + 1u]));
        } else {
            storeValue((row.y * P.kv - P.heads - P.kv) * P.head + at, vec2<f32>(v[2u * i], v[2u * i + 1u]));
        }
    }
}
