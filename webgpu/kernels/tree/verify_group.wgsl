// Verification of a tree with a workgroup a row; see verify.wgsl. All lanes make the same decisions. The loop over the
// children does not end at the accepted one, because that would be a branch around a barrier.
const LANES: u32 = 256u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = wid.x;
    let node = nodes[row];
    let count = node.z;
    if (count == 0u || !(bitcast<f32>(draw[0]) > 0.0)) {
        if (lane == 0u) { simple(row, node); }
        return;
    }
    var s = Sides(row * P.stride, min(node.x, P.draft_rows - 1u) * P.draft_stride, bitcast<f32>(draw[0]),
        bitcast<f32>(target_rec[row * RECORD + 1u]), bitcast<f32>(target_rec[row * RECORD + 2u]), NONE, 0.0);
    var next = NONE;
    var at = node.y + count;
    let end = at + count;
    for (var i = lane; i < P.vocab; i = i + LANES) {
        let w = finite(draft_logits[s.dbase + i]);
        s.most = max(s.most, w);
        while (at < end && children[min(at, end - 1u)] < i) { at = at + 1u; }
        if (!(at < end && children[min(at, end - 1u)] == i)) { next = max(next, w); }
    }
    let tops = most_of(lane, vec2<f32>(s.most, next));
    s.most = tops.x;
    next = tops.y;
    var part = 0.0;
    at = node.y + count;
    for (var i = lane; i < P.vocab; i = i + LANES) {
        while (at < end && children[min(at, end - 1u)] < i) { at = at + 1u; }
        if (!(at < end && children[min(at, end - 1u)] == i)) {
            part = part + expo((finite(draft_logits[s.dbase + i]) - next) * s.inverse);
        }
    }
    part = total_of(lane, vec2<f32>(part, 0.0)).x;
    var others = NONE;
    if (next > NONE) { others = (next - s.most) * s.inverse + log(part); }
    s.log_q = remaining(s, node, others, 0u);

    var log_s = NONE;
    var mass = 1.0;
    var place = NO_CHILD;
    var live = true; // no child is accepted yet
    for (var j = 0u; j < count; j = j + 1u) {
        let x = children[node.y + j];
        let rest = remaining(s, node, others, j);
        live = live && !(rest < DEAD);
        if (live && uniform_of(node.w, j) * expo(min(weight_of(s, x) - rest, 0.0)) < left(s, x, log_s) / mass) {
            place = j;
            live = false;
        }
        var sum = 0.0;
        let grown = log_add(log_s, log(mass) + s.log_q - rest);
        if (live) {
            for (var i = lane; i < P.vocab; i = i + LANES) { sum = sum + left(s, i, grown); }
        }
        sum = total_of(lane, vec2<f32>(sum, 0.0)).x;
        if (sum > 0.0) {
            log_s = grown;
            mass = sum;
        }
    }
    let key = vec3<u32>(draw[1], draw[2], node.w | (3u << 28u));
    var best = NONE;
    var token = 0xffffffffu;
    if (place == NO_CHILD) {
        for (var i = lane; i < P.vocab; i = i + LANES) {
            let l = log_left(s, i, log_s);
            if (l > NONE) {
                let score = l + gumbel(key, i);
                if (score > best) { best = score; token = i; }
            }
        }
    }
    token = first_of(lane, best, token).id;
    if (lane == 0u) {
        if (place != NO_CHILD) {
            store(row, place, children[node.y + place]);
        } else {
            store(row, NO_CHILD, select(token, target_rec[row * RECORD + 3u], token == 0xffffffffu));
        }
    }
}
