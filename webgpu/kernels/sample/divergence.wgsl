// Divergence with one thread a row. Sums have partials of 256 tokens, so that a large vocabulary of small probabilities
// keeps its precision.
@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    let base = row * P.stride;
    let dbase = row * P.draft_stride;
    var inverse = bitcast<f32>(draw[0]);
    var most = vec2<f32>(0.0, 0.0); // subtracted before the temperature divides
    var floor = vec2<f32>(LOW, LOW);
    var lse = vec2<f32>(0.0, 0.0);
    if (inverse > 0.0) {
        let rec = row * P.record;
        let drec = row * P.draft_record;
        floor = vec2<f32>(bitcast<f32>(target_rec[rec + 1u]), bitcast<f32>(draft_rec[drec + 1u]));
        lse = vec2<f32>(bitcast<f32>(target_rec[rec + 2u]), bitcast<f32>(draft_rec[drec + 2u]));
    } else {
        inverse = 1.0;
        most = vec2<f32>(NONE, NONE);
        for (var i = 0u; i < P.vocab; i = i + 1u) {
            most = max(most, vec2<f32>(finite(target_logits[base + i]), finite(draft_logits[dbase + i])));
        }
        var sum = vec2<f32>(0.0, 0.0);
        var part = vec2<f32>(0.0, 0.0);
        for (var i = 0u; i < P.vocab; i = i + 1u) {
            part = part + vec2<f32>(expo(finite(target_logits[base + i]) - most.x),
                expo(finite(draft_logits[dbase + i]) - most.y));
            if ((i & 255u) == 255u) { sum = sum + part; part = vec2<f32>(0.0, 0.0); }
        }
        lse = log(sum + part);
    }
    var sum = 0.0;
    var part = 0.0;
    for (var i = 0u; i < P.vocab; i = i + 1u) {
        let p = chance(finite(target_logits[base + i]), floor.x, most.x, inverse, lse.x);
        let q = chance(finite(draft_logits[dbase + i]), floor.y, most.y, inverse, lse.y);
        part = part + apart(p, q);
        if ((i & 255u) == 255u) { sum = sum + part; part = 0.0; }
    }
    store(row, sum + part, floor.x);
}
