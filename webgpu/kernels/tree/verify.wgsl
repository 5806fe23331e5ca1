// Verification of a tree with one thread a row. Loops over the vocabulary process four tokens a step, because Mesa's
// software adapter limits the steps of a thread; see kernels.MaxSteps.
@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    let node = nodes[row];
    let count = node.z;
    if (count == 0u || !(bitcast<f32>(draw[0]) > 0.0)) {
        simple(row, node);
        return;
    }
    var s = Sides(row * P.stride, min(node.x, P.draft_rows - 1u) * P.draft_stride, bitcast<f32>(draw[0]),
        bitcast<f32>(target_rec[row * RECORD + 1u]), bitcast<f32>(target_rec[row * RECORD + 2u]), NONE, 0.0);
    var next = NONE; // the largest logit of the tokens that are no children
    var at = node.y + count; // in the ascending children
    let end = at + count;
    for (var first = 0u; first < P.vocab; first = first + 4u) {
        for (var o = 0u; o < 4u; o = o + 1u) { // unroll
            let i = first + o;
            if (i < P.vocab) {
                let w = finite(draft_logits[s.dbase + i]);
                s.most = max(s.most, w);
                if (at < end && children[min(at, end - 1u)] == i) {
                    at = at + 1u;
                } else {
                    next = max(next, w);
                }
            }
        }
    }
    var sum = 0.0; // in partials of 256
    var part = 0.0;
    at = node.y + count;
    for (var first = 0u; first < P.vocab; first = first + 4u) {
        for (var o = 0u; o < 4u; o = o + 1u) { // unroll
            let i = first + o;
            if (at < end && children[min(at, end - 1u)] == i) {
                at = at + 1u;
            } else if (i < P.vocab) {
                part = part + expo((finite(draft_logits[s.dbase + i]) - next) * s.inverse);
            }
        }
        if ((first & 252u) == 252u) { sum = sum + part; part = 0.0; }
    }
    var others = NONE; // the log-weight of tokens that are no children
    if (next > NONE) { others = (next - s.most) * s.inverse + log(sum + part); }
    s.log_q = remaining(s, node, others, 0u);

    var log_s = NONE; // ln S
    var mass = 1.0;   // W
    for (var j = 0u; j < count; j = j + 1u) {
        let x = children[node.y + j];
        let rest = remaining(s, node, others, j); // not 1 minus the rejected mass, which may be all rounding
        if (rest < DEAD) { break; }
        if (uniform_of(node.w, j) * expo(min(weight_of(s, x) - rest, 0.0)) < left(s, x, log_s) / mass) {
            store(row, j, x);
            return;
        }
        let grown = log_add(log_s, log(mass) + s.log_q - rest);
        sum = 0.0;
        part = 0.0;
        for (var first = 0u; first < P.vocab; first = first + 4u) {
            for (var o = 0u; o < 4u; o = o + 1u) { // unroll
                let i = first + o;
                if (i < P.vocab) { part = part + left(s, i, grown); }
            }
            if ((first & 252u) == 252u) { sum = sum + part; part = 0.0; }
        }
        sum = sum + part;
        if (sum > 0.0) { // otherwise p equals q up to rounding, and p stays
            log_s = grown;
            mass = sum;
        }
    }
    let key = vec3<u32>(draw[1], draw[2], node.w | (3u << 28u));
    var best = NONE;
    var token = target_rec[row * RECORD + 3u];
    for (var first = 0u; first < P.vocab; first = first + 4u) {
        for (var o = 0u; o < 4u; o = o + 1u) { // unroll
            let i = first + o;
            if (i < P.vocab) {
                let l = log_left(s, i, log_s);
                if (l > NONE) {
                    let score = l + gumbel(key, i);
                    if (score > best) { best = score; token = i; }
                }
            }
        }
    }
    store(row, NO_CHILD, token);
}
