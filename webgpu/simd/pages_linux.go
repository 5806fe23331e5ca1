package simd

import "golang.org/x/sys/unix"

// largePages asks the system for large pages: a pass reads all weights, which have more small pages than a processor
// keeps addresses of.
func largePages(m []byte) { _ = unix.Madvise(m, unix.MADV_HUGEPAGE) }
