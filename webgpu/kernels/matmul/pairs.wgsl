// weightRow returns the r-th weight row of a tile. In the paired part of a head, the first half of a tile's rows are
// consecutive, and the second half are their partners.
fn weightRow(tile: u32, r: u32) -> u32 {
    let at = tile * R;
    let e = at % P.head;
    if (e < P.paired) {
        return at - e + e / 2u + select(r, r - HALF + P.paired / 2u, r >= HALF);
    }
    return at + r;
}
