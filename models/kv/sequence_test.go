package kv

import (
	"math/rand/v2"
	"testing"

	"foretoken/webgpu/kernels"
)

// TestIdentityPrefix takes, frees and truncates slots at random and compares identityPrefix with its definition.
func TestIdentityPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := NewSequence(nil, 24)
	some, none := 0, 0
	for range 200 {
		s.Reset()
		for range 60 {
			switch slots, err := s.Take(1+rng.IntN(3), nil); {
			case err == nil: // accept one of the slots
				at := rng.IntN(len(slots))
				s.Commit(slots[at], 0)
				slots[at] = Committed
				s.Release(slots)
				s.MarkWritten()
			case rng.IntN(2) == 0:
				s.ReusePrefix(make([]int32, rng.IntN(len(s.table))))
			}
			check := func() {
				want := 0
				for want < len(s.table) && s.table[want] == uint32(want) {
					want++
				}
				if got := s.identityPrefix(); got != want {
					t.Fatalf("%d of %v are straight, %d", got, s.table, want)
				}
				if want > 0 && want < len(s.table) {
					some++
				} else if len(s.table) > 0 && want == 0 {
					none++
				}
			}
			check()
			if n := len(s.table); n > 0 && rng.IntN(4) == 0 {
				if err := s.Within(rng.IntN(n), func() error { check(); return nil }); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if some == 0 || none == 0 {
		t.Errorf("%d tables were straight in part, %d not at all", some, none)
	}
}

// TestBorrowedFromEmpty: no position of an empty sequence can be attended to.
func TestBorrowedFromEmpty(t *testing.T) {
	p := NewPass(NewSequence(nil, 24), 0, 0, 1, 1)
	p.Borrow(NewSequence(nil, 24), kernels.View{})
	if err := p.WriteBorrowed(); err == nil {
		t.Error("the rows of an empty sequence are uploaded")
	}
}
