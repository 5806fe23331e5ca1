// Divergence with a workgroup a row; see divergence.wgsl.
const LANES: u32 = 256u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = wid.x;
    let base = row * P.stride;
    let dbase = row * P.draft_stride;
    let cold = !(bitcast<f32>(draw[0]) > 0.0);
    let inverse = select(bitcast<f32>(draw[0]), 1.0, cold);
    var most = vec2<f32>(0.0, 0.0);
    var floor = vec2<f32>(LOW, LOW);
    var lse = vec2<f32>(0.0, 0.0);
    if (cold) {
        most = vec2<f32>(NONE, NONE);
        for (var i = lane; i < P.vocab; i = i + LANES) {
            most = max(most, vec2<f32>(finite(target_logits[base + i]), finite(draft_logits[dbase + i])));
        }
        most = most_of(lane, most);
        var sum = vec2<f32>(0.0, 0.0);
        for (var i = lane; i < P.vocab; i = i + LANES) {
            sum = sum + vec2<f32>(expo(finite(target_logits[base + i]) - most.x),
                expo(finite(draft_logits[dbase + i]) - most.y));
        }
        lse = log(total_of(lane, sum));
    } else {
        let rec = row * P.record;
        let drec = row * P.draft_record;
        floor = vec2<f32>(bitcast<f32>(target_rec[rec + 1u]), bitcast<f32>(draft_rec[drec + 1u]));
        lse = vec2<f32>(bitcast<f32>(target_rec[rec + 2u]), bitcast<f32>(draft_rec[drec + 2u]));
    }
    var sum = 0.0;
    for (var i = lane; i < P.vocab; i = i + LANES) {
        let p = chance(finite(target_logits[base + i]), floor.x, most.x, inverse, lse.x);
        let q = chance(finite(draft_logits[dbase + i]), floor.y, most.y, inverse, lse.y);
        sum = sum + apart(p, q);
    }
    let all = total_of(lane, vec2<f32>(sum, 0.0)).x;
    if (lane == 0u) { store(row, all, floor.x); }
}
