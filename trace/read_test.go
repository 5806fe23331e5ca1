package trace

import (
	"encoding/binary"
	"strings"
	"testing"

	"foretoken/spec"
)

// TestReadRefuses changes a trace in each of the ways that its reader looks for.
func TestReadRefuses(t *testing.T) {
	head := []byte{Version, 0, 1, 1, 0, 0}                               // one round
	round := append(head, 0, 0, 0, 0, 0, 1, 5, 8, 'x')                   // of one token
	tree := append(append([]byte{}, round...), 1, 0, 0, 5, 1, 'x', 0, 0) // a root alone
	if _, err := Read(tree); err != nil {
		t.Fatal(err)
	}
	with := func(b []byte, more ...byte) []byte { return append(append([]byte{}, b...), more...) }
	most := binary.AppendUvarint(nil, spec.MaxNodes+1)
	for _, c := range []struct {
		name string
		b    []byte
		says string
	}{
		{"empty", nil, "trace: it ends within version"},
		{"of another version", []byte{2}, "trace: its version is 2, and this program reads version 1"},
		{"too long", make([]byte, MaxBytes+1), "trace: it has 4194305 bytes, want at most 4194304"},
		{"a number of too many bits", []byte{Version, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "prompt is more than 65536"},
		{"an endless number", with([]byte{Version}, 0x80, 0x80, 0x80), "it ends within prompt"},
		{"a number with a zero too many", []byte{Version, 0x81, 0, 'x'}, "prompt is longer than it needs"},
		{"a prompt that is no UTF-8", []byte{Version, 1, 0xff}, "prompt is not UTF-8"},
		{"a prompt beyond its end", []byte{Version, 9, 'x'}, "it ends within 9 prompt"},
		{"more rounds than the request had", []byte{Version, 0, 1, 2}, "rounds is more than 1"},
		{"an unknown finish", []byte{Version, 0, 1, 1, 6}, "finish is more than 5"},
		{"without its rounds", head, "round 1: it ends within draft"},
		{"a round without tokens", with(head, 0, 0, 0, 0, 0, 0), "round 1: tokens is 0, want at least 1"},
		{"a round of too many tokens", with(with(head, 0, 0, 0, 0, 0), most...), "round 1: tokens is more than 4096"},
		{"an unknown kind", with(head, 0, 0, 0, 0, 0, 1, 5, 5), "round 1: a token has the unknown kind 5"},
		{"a text that is no UTF-8", with(head, 0, 0, 0, 0, 0, 1, 5, 8, 0xc3), "round 1: a token's text is not UTF-8"},
		{"a tree without nodes", with(round, 0), "tree 1: nodes is 0, want at least 1"},
		{"a tree of too many nodes", with(round, most...), "tree 1: nodes is more than 4096"},
		{"a tree of more nodes than bytes", with(round, 100, 0, 0), "tree 1: it ends within 100 nodes"},
		{"a token beyond the dictionary", with(round, 1, 0, 1, 5, 1, 'x'), "tree 1: a token is more than 0"},
		{"a node under itself", with(round, 2, 0, 0, 5, 1, 'x', 0, 2, 0, 0), "tree 1: node 1 has parent 1"},
		{"a node above the root", with(round, 2, 0, 0, 5, 1, 'x', 0, 1, 0, 0), "tree 1: node 1 has parent -1"},
		{"a path beyond the tree", with(round, 1, 0, 0, 5, 1, 'x', 1, 0), "tree 1: last is more than 0"},
		{"a path of more nodes than tokens", with(round, 3, 0, 0, 5, 1, 'x', 0, 0, 0, 2, 0, 0, 2, 0),
			"tree 1: its path has 2 nodes, but the round 1 tokens"},
		{"a score too low", with(round, 2, 0, 0, 5, 1, 'x', 0, 0, 0x81, 0x80, 2, 0, 0),
			"tree 1: a score is more than 32768"},
		{"an unknown part", with(round, 1, 8), "tree 1: known is more than 7"},
		{"more pruned nodes than there were", with(round, 1, 0, 0, 5, 1, 'x', 0, 1, 2, 0, 0, 0, 0, 0, 0),
			"tree 1: shown is more than 1"},
		{"a pruned node under itself", with(round, 1, 0, 0, 5, 1, 'x', 0, 1, 1, 0, 1, 0),
			"tree 1: a parent is more than 0"},
		{"more trees than rounds", with(tree, 1, 0, 0, 0, 0), "trace: 5 bytes follow the last tree"},
	} {
		if _, err := Read(c.b); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// FuzzRead reads changed traces: an error, or trees that keep their invariants.
func FuzzRead(f *testing.F) {
	f.Add(sample().Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		trace, err := Read(b)
		if err != nil {
			if trace != nil || !strings.HasPrefix(err.Error(), "trace: ") {
				t.Errorf("%v with %v", trace, err)
			}
			return
		}
		for i, r := range trace.Rounds {
			if r.Tree == nil {
				continue
			}
			x := r.Tree
			if err := x.Validate(1<<31 - 1); err != nil && !strings.Contains(err.Error(), "vocabulary") {
				t.Error(err)
			}
			if len(x.Path) > len(r.Tokens)+1 || int(x.Path[len(x.Path)-1]) >= x.Len() || len(x.Texts) != x.Len() {
				t.Errorf("round %d has the path %v in a tree of %d nodes", i+1, x.Path, x.Len())
			}
			p := x.Pruned
			if n := len(p.Tokens); n > MaxPruned || n > p.Total || len(p.Texts) != n || len(p.Scores) != n {
				t.Errorf("round %d shows %d pruned nodes of %d", i+1, n, p.Total)
			}
			for k, parent := range p.Parents {
				if int(parent) >= x.Len()+k {
					t.Errorf("pruned node %d has parent %d", k, parent)
				}
			}
		}
	})
}
