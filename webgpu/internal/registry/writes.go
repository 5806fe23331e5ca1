package registry

import "slices"

// flushAt bounds the bytes of writes that wait for the next run.
const flushAt = 4 << 20

// Write is a range of a buffer to be filled from the bytes Start to End of its queue.
type Write[B any] struct {
	Buffer             *Buffer[B]
	Offset, Start, End int
}

// Writes queues writes until the next submit. Its slices are kept, so nothing is allocated once the largest run has
// been seen.
type Writes[B any] struct {
	Bytes  []byte
	Writes []Write[B]
}

// Put copies data into the queue and has it flushed whenever it is large. A write that continues the one before
// becomes part of it.
func (q *Writes[B]) Put(b *Buffer[B], offset int, data []byte, flush func() error) error {
	for len(data) > 0 {
		n, start := min(len(data), flushAt), len(q.Bytes)
		q.Bytes = append(q.Bytes, data[:n]...)
		last := len(q.Writes) - 1
		if last >= 0 && q.Writes[last].Buffer == b &&
			q.Writes[last].Offset+q.Writes[last].End-q.Writes[last].Start == offset {
			q.Writes[last].End = len(q.Bytes)
		} else {
			q.Writes = append(q.Writes, Write[B]{b, offset, start, len(q.Bytes)})
		}
		data, offset = data[n:], offset+n
		if len(q.Bytes) >= flushAt {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Forget drops the writes to a buffer that is being freed.
func (q *Writes[B]) Forget(b *Buffer[B]) {
	q.Writes = slices.DeleteFunc(q.Writes, func(w Write[B]) bool { return w.Buffer == b })
}

// Reset empties the queue.
func (q *Writes[B]) Reset() {
	clear(q.Writes) // the buffers may be freed before the next write
	q.Bytes, q.Writes = q.Bytes[:0], q.Writes[:0]
}
