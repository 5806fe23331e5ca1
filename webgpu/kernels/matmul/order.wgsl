// weightRow returns the r-th weight row of a tile.
fn weightRow(tile: u32, r: u32) -> u32 { return tile * R + r; }
