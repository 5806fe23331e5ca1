//go:build !js

package foretoken

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"foretoken/models/constrain"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// watched is a context that tells where it is asked for its end: grammars do so while they are compiled and followed.
type watched struct {
	context.Context
	asked func(where string)
}

func (w watched) Err() error {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		for _, where := range []string{"New", "(*Constraint).Adjust", "(*Constraint).Take"} {
			if strings.HasSuffix(f.Function, "/constrain."+where) {
				w.asked(where)
			}
		}
	}
	return w.Context.Err()
}

// TestLostWhileConstrained loses the device between its calls, where a request's constraints are at work: while a
// grammar is compiled, while it adjusts a pass and takes tokens, and in the caller's function for each round. The
// tokens do not change. Where no device comes back the request ends with the loss, and the next one gets the same
// tokens.
func TestLostWhileConstrained(t *testing.T) {
	t.Attr("attack", "a device that is lost while a grammar or a bias is at work, or in the caller's function")
	t.Attr("bound", "the same tokens; without another device the request ends with the loss, and the next one works")
	losses := 0
	grammar := `root ::= ([a-z ]? [a-z ,]?){200} "." [` + strings.Repeat("a-z", 100000) + `]`
	logits := constrain.Constraints{FrequencyPenalty: 0.8, PresencePenalty: 0.3,
		LogitBias: map[int32]float32{403: -100, 261: 3}}
	tree := Request{Policy: method.DrafterEAGLE2, Depth: 2, TopK: 3, Nodes: 8}
	for name, c := range map[string]struct {
		r           Request
		constraints constrain.Constraints
	}{
		"a grammar, plain": {Request{Policy: method.DrafterNone, Temperature: 1},
			constrain.Constraints{Grammar: grammar}},
		"a grammar, a tree":       {tree, constrain.Constraints{Grammar: grammar}},
		"logits, a tree":          {tree, logits},
		"logits, a drawn chain":   {Request{Policy: method.DrafterChain, Depth: 3, Temperature: 0.9}, logits},
		"logits, n-grams":         {Request{Policy: method.DrafterNgram, Temperature: 0.7}, logits},
		"a grammar and penalties": {tree, constrain.Constraints{Grammar: grammar, FrequencyPenalty: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.r
			r.Constraints, r.MaxTokens, r.Seed, r.LogProbs = c.constraints, 10, 11, true
			k := newFaultyPair(t, nil)
			s, err := k.open()
			if err != nil {
				t.Fatal(err)
			}
			defer k.close(t, s)
			calls := map[string]int{}
			lose, at := "", 0 // the place, and its call that the device is lost in
			use := func() (string, error) {
				clear(calls)
				asked := func(where string) {
					if calls[where]++; where == lose && calls[where] == at+1 {
						s.pair.Device.Destroy()
					}
				}
				out, err := s.Generate(watched{context.Background(), asked}, "Once upon a time, there was a", r,
					func(e *Event) error {
						asked("event")
						for _, token := range e.Tokens {
							if token.LogProb == nil || !(*token.LogProb <= 0) {
								return fmt.Errorf("token %d has no log-probability", token.ID)
							}
						}
						return nil
					})
				if err != nil {
					return "", err
				}
				return fmt.Sprint(out.TokenIDs, out.Text, out.Finish), nil
			}
			want, err := use()
			if err != nil {
				t.Fatal(err)
			}
			places := map[string]int{}
			for where, n := range calls {
				places[where] = n
			}
			if c.constraints.Grammar != "" && (places["New"] == 0 || places["(*Constraint).Adjust"] == 0) {
				t.Fatalf("the grammar is too small to be asked: %v", places)
			}
			for lose = range places {
				for _, at = range chosen(0, places[lose], 3) {
					k.losses = nil
					if got, err := use(); err != nil || got != want {
						t.Errorf("lost at %s %d: %q, %v, without a loss %q", lose, at, got, err, want)
					}
					losses += 2
					last := lose == "event" && at == places[lose]-1 // nothing is asked of the device afterwards
					if !last && (len(k.losses) != 2 || !k.losses[1].Recovered) {
						t.Errorf("lost at %s %d: reported %v", lose, at, k.losses)
					}
					k.reopen = func(context.Context) (webgpu.Device, error) {
						return nil, errors.New("test: no device")
					}
					got, err := use()
					if !last && !errors.Is(err, webgpu.ErrDeviceLost) || errors.Is(err, ErrRequest) {
						t.Errorf("lost for good at %s %d: %q, %v", lose, at, got, err)
					}
					k.reopen = k.device
					lost := lose
					lose = ""
					if got, err := use(); err != nil || got != want {
						t.Errorf("after a loss at %s %d: %q, %v, want %q", lost, at, got, err, want)
					}
					lose = lost
				}
			}
		})
	}
	t.Attr("measured", fmt.Sprintf("%d losses", losses))
}
