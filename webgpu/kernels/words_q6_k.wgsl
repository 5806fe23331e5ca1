// The words of Q6_K, see unpack_q6_k.wgsl: fetch returns those of a step.
@group(0) @binding(1) var<storage, read> weights: array<u32>;

fn fetch(row: u32, step: u32) -> vec4<u32> {
    let block = (row * (P.steps >> 5u) + (step >> 5u)) * 48u;
    let upper = weights[block + 32u + ((step >> 4u) & 1u) * 8u + (step & 7u)];
    return vec4<u32>(weights[block + (step & 31u)], upper >> (2u * ((step >> 3u) & 1u)), 0u, 0u);
}
