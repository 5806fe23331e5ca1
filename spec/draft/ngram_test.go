package draft

import (
	"context"
	"slices"
	"testing"

	"foretoken/spec"
)

func TestMapLookupKeysAndCounts(t *testing.T) {
	session, err := MapLookup{Size: 2}.Begin(context.Background(), spec.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seq := []int32{1, 2, 3, 4, 5, 1, 2}
	for i, step := range []struct {
		accepted int     // of this draft
		add      []int32 // committed after it
		want     []int32
	}{
		{2, []int32{3, 4, 9, 1, 2}, []int32{3, 4, 5, 1}}, // after 1 2, four at most
		// the key's last draft was accepted for two; the newest occurrence
		{0, []int32{8, 1, 2}, []int32{3, 4}},
		{1, []int32{8, 7, 1, 2}, []int32{8, 1}}, // nothing was accepted: still two
		{1, []int32{8, 3, 4}, []int32{8}},       // one
		{0, []int32{6, 6}, []int32{9, 1, 2, 8}}, // another key, with nothing known of it
		{0, []int32{6}, nil},                    // new
		{0, []int32{5}, []int32{6}},             // overlapping itself
	} {
		d, err := session.Propose(context.Background(), seq, spec.Budget{Levels: 4, Width: 1, Nodes: 9})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Tree.Tokens[1:]; !slices.Equal(got, step.want) || !d.Tree.IsChain() {
			t.Errorf("step %d: after %v %v, want %v", i, seq, got, step.want)
		}
		path := []int32{0}
		for j := range step.accepted {
			path = append(path, int32(j+1))
		}
		if err := session.Commit(path); err != nil {
			t.Fatal(err)
		}
		seq = append(seq, step.add...)
	}
	// Text that came without proposals is in the map as well.
	seq = append(seq, 1, 9, 9, 4, 4, 1, 9)
	d, err := session.Propose(context.Background(), seq, spec.Budget{Levels: 9, Width: 1, Nodes: 3})
	if err != nil || !slices.Equal(d.Tree.Tokens[1:], []int32{9, 4}) {
		t.Errorf("%v (%v)", d.Tree.Tokens, err)
	}
	for _, m := range []MapLookup{{0}, {3}} {
		session, err := m.Begin(context.Background(), spec.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := session.Propose(context.Background(), []int32{1, 1, 1},
			spec.Budget{Levels: 4, Width: 1, Nodes: 9}); err != nil || d.Tree.Len() != 1 {
			t.Errorf("size %d: %v (%v)", m.Size, d.Tree, err)
		}
	}
}

func TestLookupDrafts(t *testing.T) {
	for _, c := range []struct {
		name string
		find func([]int32, int) []int32
		seq  []int32
		n    int
		want []int32
	}{
		{"the longest n-gram first", PromptLookup{2, 1, false}.find, []int32{2, 9, 1, 2, 3, 4, 1, 2}, 2, []int32{3, 4}},
		{"a shorter one after", PromptLookup{3, 1, false}.find, []int32{2, 9, 7, 8, 5, 2}, 2, []int32{9, 7}},
		{"not below the least", PromptLookup{3, 2, false}.find, []int32{2, 9, 7, 8, 5, 2}, 2, nil},
		{"the first occurrence", PromptLookup{1, 1, false}.find, []int32{1, 2, 1, 3, 1}, 1, []int32{2}},
		{"as far as there is text", PromptLookup{1, 1, false}.find, []int32{1, 2, 1}, 9, []int32{2, 1}},
		{"overlapping itself", PromptLookup{2, 1, false}.find, []int32{5, 5, 5}, 9, []int32{5}},
		{"nothing", PromptLookup{2, 1, false}.find, []int32{1, 2, 3}, 9, nil},
		{"too short", PromptLookup{2, 1, false}.find, []int32{1}, 9, nil},
		{"the last occurrence", PromptLookup{1, 1, true}.find, []int32{1, 2, 1, 3, 1}, 1, []int32{3}},
		{"of exactly the size", PromptLookup{2, 2, true}.find, []int32{1, 2, 7, 3, 2, 8, 1, 2}, 2, []int32{7, 3}},
		{"no shorter one", PromptLookup{2, 2, true}.find, []int32{2, 7, 3, 2}, 2, nil},
		{"a history as in llama.cpp's test", PromptLookup{2, 2, true}.find, []int32{99, 1, 2, 7, 8, 3, 4, 1, 2}, 2,
			[]int32{7, 8}},
		{"too short for the size", PromptLookup{2, 2, true}.find, []int32{2, 2}, 2, nil},
	} {
		if got := c.find(c.seq, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
