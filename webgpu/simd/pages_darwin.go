package simd

func largePages([]byte) {}
