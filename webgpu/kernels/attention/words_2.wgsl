// Caches are read two words at a time.
alias Words = vec2<u32>;
// select compiles to nothing if n is a literal; a dynamic index would be a lookup even then.
fn wordOf(w: Words, n: u32) -> u32 { return select(w.x, w.y, n == 1u); }
fn keyWord(at: u32, n: u32) -> u32 { return keys[at][n]; }
fn valueWord(at: u32, n: u32) -> u32 { return values[at][n]; }
