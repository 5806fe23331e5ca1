// The words of Q6_K, see unpack_q6_k.wgsl: fetch returns those of four steps.
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;

fn fetch(row: u32, step: u32) -> Raw {
    let block = (row * (P.steps >> 5u) + (step >> 5u)) * 12u;
    let upper = weights[block + 8u + ((step >> 4u) & 1u) * 2u + ((step >> 2u) & 1u)];
    return Raw(weights[block + ((step >> 2u) & 7u)], upper >> vec4<u32>(2u * ((step >> 3u) & 1u)));
}
