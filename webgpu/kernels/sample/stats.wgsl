// The statistics that Sample's grouped kernels reduce, and their tree reduction over 64 lanes.
struct Stats {
    best: f32, best_id: u32, // of the logits
    sum: f32, moment: f32,   // of exp(z - best) and (z - best) exp(z - best)
    top: f32, top_id: u32,   // of the scores
    top_sum: f32,            // of exp(score - top)
}

fn empty_stats() -> Stats {
    return Stats(NONE, 0xffffffffu, 0.0, 0.0, NONE, 0xffffffffu, 0.0);
}

// before orders (score, id) pairs: greater score first, then lower id.
fn before(s: f32, id: u32, than: f32, than_id: u32) -> bool {
    return s > than || (s == than && id < than_id);
}

fn merge_stats(a: Stats, b: Stats) -> Stats {
    var r = a;
    if (before(b.best, b.best_id, a.best, a.best_id)) { r.best = b.best; r.best_id = b.best_id; }
    if (before(b.top, b.top_id, a.top, a.top_id)) { r.top = b.top; r.top_id = b.top_id; }
    let da = a.best - r.best;
    let db = b.best - r.best;
    let ea = expo(da);
    let eb = expo(db);
    r.sum = a.sum * ea + b.sum * eb;
    r.moment = (a.moment + da * a.sum) * ea + (b.moment + db * b.sum) * eb;
    r.top_sum = a.top_sum * expo(a.top - r.top) + b.top_sum * expo(b.top - r.top);
    return r;
}

var<workgroup> lanes: array<Stats, 64>;

// reduce_stats returns the merge of all lanes to each lane, always in the same order.
fn reduce_stats(lane: u32, a: Stats) -> Stats {
    lanes[lane] = a;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step = step / 2u) {
        if (lane < step) { lanes[lane] = merge_stats(lanes[lane], lanes[lane + step]); }
        workgroupBarrier();
    }
    return lanes[0];
}

// add_up returns the sum over all lanes to each lane, always in the same order.
fn add_up(lane: u32, v: f32) -> f32 {
    workgroupBarrier(); // lanes may still read the previous result
    lanes[lane].sum = v;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step = step / 2u) {
        if (lane < step) { lanes[lane].sum = lanes[lane].sum + lanes[lane + step].sum; }
        workgroupBarrier();
    }
    return lanes[0].sum;
}
