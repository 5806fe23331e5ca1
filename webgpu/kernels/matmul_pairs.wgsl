// weightRow is the r-th weight row of a tile: of the first rows of a head, half as many as a tile has, and
// those that they are paired with.
fn weightRow(tile: u32, r: u32) -> u32 {
    let at = tile * R;
    let e = at % P.head;
    if (e < P.paired) {
        return at - e + e / 2u + select(r, r - HALF + P.paired / 2u, r >= HALF);
    }
    return at + r;
}
