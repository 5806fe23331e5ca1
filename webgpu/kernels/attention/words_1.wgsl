// Caches are read a word at a time.
alias Words = u32;
fn wordOf(w: Words, n: u32) -> u32 { return w; }
fn keyWord(at: u32, n: u32) -> u32 { return keys[at]; }
fn valueWord(at: u32, n: u32) -> u32 { return values[at]; }
