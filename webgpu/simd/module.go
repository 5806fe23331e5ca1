package simd

// page is the unit in which WebAssembly's memory grows, in bytes.
const page = 1 << 16

// reach is the end of WebAssembly's memory: the end of 32-bit addresses less a page, so that no range ends at 2³².
const reach = 1<<32 - page
