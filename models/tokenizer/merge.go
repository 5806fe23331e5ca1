package tokenizer

import "cmp"

// symbol is a token in the making, in a doubly linked list over a slice.
type symbol struct {
	id         int32 // none once it has been merged away
	prev, next int32 // -1 at the ends
}

// join merges neighbouring symbols, the best pair first, until no pair merges, in O(n log n). merged returns the id
// and the score of two neighbours' merge, if they have one. The list begins at symbol 0. It stops with the meter.
func join[S cmp.Ordered](syms []symbol, m *meter, merged func(left, right int32) (id int32, score S, ok bool)) {
	for i := range syms {
		syms[i].prev, syms[i].next = int32(i-1), int32(i+1)
	}
	if len(syms) > 0 {
		syms[len(syms)-1].next = -1
	}
	q := make(queue[S], 0, len(syms)) // of a long word it would be copied as it grows
	try := func(left, right int32) {
		if left < 0 || right < 0 {
			return
		}
		if id, score, ok := merged(left, right); ok {
			q.push(candidate[S]{score, left, right, id, pair{syms[left].id, syms[right].id}})
		}
	}
	for i := 1; i < len(syms) && m.spend(1); i++ {
		try(int32(i-1), int32(i))
	}
	for len(q) > 0 && m.spend(1) {
		c := q.pop()
		left, right := &syms[c.left], &syms[c.right]
		if left.id != c.was.left || right.id != c.was.right || left.next != c.right {
			continue // they have changed, or are no neighbours any more
		}
		left.id = c.id
		unlink(syms, c.left, c.right)
		try(syms[c.left].prev, c.left)
		try(c.left, syms[c.left].next)
	}
}

// unlink removes right, which follows left.
func unlink(syms []symbol, left, right int32) {
	next := syms[right].next
	syms[right].id = none
	syms[left].next = next
	if next >= 0 {
		syms[next].prev = left
	}
}

// candidate is a merge of two neighbouring symbols.
type candidate[S cmp.Ordered] struct {
	score       S // the highest is merged first, the leftmost among equals
	left, right int32
	id          int32 // of the token that it gives
	was         pair  // the two ids when it was queued
}

// queue is a binary heap of candidates, the best at the root. It is written out
// because container/heap boxes every element.
type queue[S cmp.Ordered] []candidate[S]

func (q queue[S]) before(i, j int) bool {
	if q[i].score != q[j].score {
		return q[i].score > q[j].score
	}
	return q[i].left < q[j].left
}

func (q *queue[S]) push(c candidate[S]) {
	*q = append(*q, c)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *queue[S]) pop() candidate[S] {
	h := *q
	top := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	*q = h
	for i := 0; ; {
		best := i
		for child := 2*i + 1; child <= 2*i+2 && child < n; child++ {
			if h.before(child, best) {
				best = child
			}
		}
		if best == i {
			return top
		}
		h[i], h[best] = h[best], h[i]
		i = best
	}
}
