// fetched returns the raw words of one step, and one those of the first step of them.
fn fetched(row: u32, step: u32) -> vec4<u32> { return fetch(row, step); }
fn one(raw: vec4<u32>) -> vec4<u32> { return raw; }
