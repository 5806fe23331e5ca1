// How a thread of matmul_rows gets activations: of four neighbours, who need the same four
// floats, each reads one. An adapter that reads for one lane at a time has a quarter of the work.
// The four are a quad, which subgroups of any size are made of.
enable subgroups;

// No thread may leave before the others have what it reads for them.
fn idle(tile: u32) -> bool { return false; }
// laneOf is a thread's place in its quad, which nothing says follows from its number.
fn laneOf(local: u32) -> u32 {
    return select(0u, 1u, quadBroadcast(local, 1u) == local) + select(0u, 2u, quadBroadcast(local, 2u) == local)
        + select(0u, 3u, quadBroadcast(local, 3u) == local);
}
// Own is what a thread has of four numbers that others need too: one of them.
alias Own = f32;
fn ownOf(v: vec4<f32>, lane: u32) -> Own { return v[lane]; }
fn own(at: u32, lane: u32) -> Own { return x[at][lane]; }
fn whole(v: Own) -> vec4<f32> {
    return vec4<f32>(quadBroadcast(v, 0u), quadBroadcast(v, 1u), quadBroadcast(v, 2u), quadBroadcast(v, 3u));
}
fn take(at: u32, lane: u32) -> vec4<f32> { return whole(own(at, lane)); }
