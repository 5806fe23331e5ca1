//go:build !js

package native

import "github.com/rajveermalviya/go-webgpu/wgpu"

// write is a range of a buffer to be filled from the queue's bytes.
type write struct {
	to         *wgpu.Buffer
	label      string
	offset     int
	start, end int // in writeQueue.bytes
}

// writeQueue holds writes until the next submit. Its slices are kept, so
// nothing is allocated once the largest run has been seen.
type writeQueue struct {
	bytes  []byte
	writes []write
}

// add copies data. A write that continues the one before becomes part of it.
func (q *writeQueue) add(to *wgpu.Buffer, label string, offset int, data []byte) {
	start := len(q.bytes)
	q.bytes = append(q.bytes, data...)
	if n := len(q.writes); n > 0 {
		last := &q.writes[n-1]
		if last.to == to && last.offset+last.end-last.start == offset {
			last.end = len(q.bytes)
			return
		}
	}
	q.writes = append(q.writes, write{to, label, offset, start, len(q.bytes)})
}

// forget drops the writes to a buffer that is being freed.
func (q *writeQueue) forget(b *wgpu.Buffer) {
	kept := q.writes[:0]
	for _, w := range q.writes {
		if w.to != b {
			kept = append(kept, w)
		}
	}
	q.writes = kept
}

func (q *writeQueue) size() int { return len(q.bytes) }

func (q *writeQueue) reset() {
	clear(q.writes) // the buffers may be freed before the next write
	q.bytes, q.writes = q.bytes[:0], q.writes[:0]
}
