// Loads of activations for rows.wgsl with subgroups: four neighbours need the same four floats, and each reads one of
// them. An adapter that reads for one lane at a time makes a quarter of the reads. The four threads are a WGSL quad,
// which is part of one subgroup.
enable subgroups;

// No thread may return early, because the others need its reads.
fn idle(tile: u32) -> bool { return false; }
// laneOf returns the index of a thread in its quad, which need not follow from its local index.
fn laneOf(local: u32) -> u32 {
    return select(0u, 1u, quadBroadcast(local, 1u) == local) + select(0u, 2u, quadBroadcast(local, 2u) == local)
        + select(0u, 3u, quadBroadcast(local, 3u) == local);
}
// Slice is the share of a thread in four numbers that all threads need: one of them.
alias Slice = f32;
fn sliceOf(v: vec4<f32>, lane: u32) -> Slice { return v[lane]; }
fn readSlice(at: u32, lane: u32) -> Slice { return x[at][lane]; }
fn combine(v: Slice) -> vec4<f32> {
    return vec4<f32>(quadBroadcast(v, 0u), quadBroadcast(v, 1u), quadBroadcast(v, 2u), quadBroadcast(v, 3u));
}
fn take(at: u32, lane: u32) -> vec4<f32> { return combine(readSlice(at, lane)); }
