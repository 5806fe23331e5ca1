//go:build !js

package foretoken

import (
	"context"
	"fmt"
	"testing"

	"foretoken/models/demo"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

// TestOwners has requests of several owners follow each other: what the last request left is its owner's alone.
func TestOwners(t *testing.T) {
	s := opened(t, "cpu", demo.Target(), demo.Draft(), Options{})
	ids := s.tok.Encode("func main() { return the secret of the first user }", true)
	ask := func(owner string, r Request) *Result {
		t.Helper()
		r.Owner, r.MaxTokens = owner, 4
		got, err := s.GenerateIDs(context.Background(), ids, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ask("ann", Request{Policy: "eagle2"})
	for i, c := range []struct {
		owner, policy string
		reused        int
	}{{"ann", "eagle2", len(ids) - 1}, {"ben", "eagle2", 0}, {"ann", "none", 0}, {"", "none", 0},
		{"", "chain", len(ids) - 1}, {"ann", "chain", 0}} {
		got := ask(c.owner, Request{Policy: c.policy})
		if st := got.Stats; st.Reused != c.reused || st.Prefilled != len(ids)-1-c.reused {
			t.Errorf("%d: %q with %s reused %d of %d tokens and prefilled %d", i, c.owner, c.policy, st.Reused,
				len(ids)-1,
				st.Prefilled)
		}
	}
	// A refused request changes nothing, and is no way to a cache that is another's.
	if _, err := s.GenerateIDs(t.Context(), ids, Request{Policy: "magic", Owner: "eve"}, nil); err == nil {
		t.Error("a policy magic is taken")
	}
	if got := ask("eve", Request{Policy: "none"}); got.Stats.Reused != 0 {
		t.Errorf("after a refusal %d tokens of another owner are reused", got.Stats.Reused)
	}
	carry := Request{Policy: "chain", Verifier: method.VerifierAdaSD, Temperature: 1}
	carry.Carry = true
	ask("ann", carry)
	had := s.adasd
	if had == (adapt.AdaSDRecords{}) {
		t.Fatal("AdaSD recorded nothing")
	}
	ask("ann", Request{Policy: "none"})
	if s.adasd != had {
		t.Errorf("the owner's own records are %s, were %s", fmt.Sprint(s.adasd), fmt.Sprint(had))
	}
	ask("ben", Request{Policy: "none"})
	if s.adasd != (adapt.AdaSDRecords{}) {
		t.Errorf("another owner finds the records %s", fmt.Sprint(s.adasd))
	}
}
