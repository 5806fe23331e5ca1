//go:build !js

package foretoken

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"foretoken/internal/files"
	"foretoken/internal/pair"
	"foretoken/models/constrain"
	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/faults"
	"foretoken/webgpu/simd"
)

// faultyPair opens a small pair on cpu devices that fail as a script says.
type faultyPair struct {
	target, draft files.Source
	script        *faults.Script
	losses        []Loss
	reopen        func(context.Context) (webgpu.Device, error) // for Options.Reopen
}

func newFaultyPair(t testing.TB, at func(n int, c faults.Call, label string) faults.Fault) *faultyPair {
	t.Helper()
	k := &faultyPair{target: edited(t, "tiny-q8_0", nil), draft: edited(t, "tiny-q4_0", nil),
		script: &faults.Script{At: at, Timeout: time.Millisecond}}
	k.reopen = k.device
	return k
}

func (k *faultyPair) device(context.Context) (webgpu.Device, error) {
	dev, err := simd.Open(simd.Options{})
	if err != nil {
		return nil, err
	}
	return faults.New(dev, k.script), nil
}

func (k *faultyPair) open() (*Session, error) {
	dev, err := k.device(context.Background())
	if err != nil {
		return nil, err
	}
	s, err := Open(context.Background(), dev, k.target, k.draft,
		Options{Context: 96, Reopen: func(ctx context.Context) (webgpu.Device, error) { return k.reopen(ctx) },
			Lost: func(l Loss) { k.losses = append(k.losses, l) }})
	if err != nil {
		dev.Destroy()
	}
	return s, err
}

// use runs requests on a session and returns their texts.
type use func(s *Session) (string, error)

func generating(r Request) use {
	r.MaxTokens, r.Seed = 10, 11
	return func(s *Session) (string, error) {
		var texts []string
		for _, prompt := range []string{"Once upon a time, there was a", "Once upon a time, the dog"} {
			out, err := s.Generate(context.Background(), prompt, r, nil)
			if err != nil {
				return "", err
			}
			texts = append(texts, fmt.Sprint(out.TokenIDs, out.Text, out.Finish))
		}
		return strings.Join(texts, "\n"), nil
	}
}

func conversing(s *Session) (string, error) {
	var texts []string
	chat, err := s.NewChat(ChatOptions{Template: "{% for m in messages %}{{ m.content }} {% endfor %}"})
	if err != nil {
		return "", err
	}
	r := Request{Policy: method.DrafterChain, Depth: 3, Temperature: 0.9, Seed: 3, MaxTokens: 6,
		Constraints: constrain.Constraints{FrequencyPenalty: 1, LogitBias: map[int32]float32{403: -100}}}
	for _, message := range []string{"Once upon a time", "The dog"} {
		reply, err := chat.Send(context.Background(), Message{Content: message}, r, nil)
		if err != nil {
			return "", err
		}
		texts = append(texts, reply.Text)
	}
	return strings.Join(texts, "\n"), nil
}

// uses are ways to decode that differ in their device state and in what they learn.
var uses = map[string]use{
	"plain": generating(Request{Policy: method.DrafterNone, Temperature: 1}),
	"chain": generating(Request{Policy: method.DrafterChain, Depth: 3}),
	"tree, sampled": generating(Request{Policy: method.DrafterEAGLE2, Depth: 2, TopK: 3, Nodes: 8, Temperature: 0.9,
		TopP: new(0.95), LogProbs: true}),
	"auto":     generating(Request{Policy: method.DrafterAuto, Temperature: 0.9}),
	"assisted": generating(Request{Policy: "assisted", Temperature: 0.8}),
	"rejection": generating(Request{Policy: method.DrafterChain, Depth: 3, Verifier: method.VerifierRejection,
		Temperature: 1}),
	"adaedl": generating(Request{Policy: "adaedl", Temperature: 1, Verifier: method.VerifierRejection}),
	"drawn trees": generating(Request{Policy: method.DrafterSampled, Verifier: method.VerifierWithoutReplacement,
		Temperature: 1.2}),
	"mars":  generating(Request{Policy: "mars", Temperature: 0.7}),
	"adasd": generating(Request{Policy: "adasd"}),
	"grammar": generating(Request{Policy: method.DrafterEAGLE2, Depth: 2, TopK: 3, Nodes: 8,
		Constraints: constrain.Constraints{Grammar: `root ::= [a-z ]+ "." [a-z ]+ "."`}}),
	"a conversation":   conversing,
	"n-grams and none": generating(Request{Policy: method.DrafterNgram, Temperature: 0.9, NoReuse: true}),
}

// chosen returns call numbers in [from, to) for a fault: all of them in make soak, else a few.
func chosen(from, to, few int) []int {
	var all []int
	if n := to - from; os.Getenv("FORETOKEN_SOAK") != "" || few >= n {
		few = n
	}
	random := rand.New(rand.NewPCG(1, uint64(to)))
	for i := range few {
		low, high := from+i*(to-from)/few, from+(i+1)*(to-from)/few
		all = append(all, low+random.IntN(high-low))
	}
	return all
}

// measured uses a session without faults. It returns the texts and the number of calls to load the pair and in
// total.
func measured(t *testing.T, use use) (want string, loading, calls int) {
	t.Helper()
	k := newFaultyPair(t, nil)
	s, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	loading = k.script.Calls()
	if want, err = use(s); err != nil {
		t.Fatal(err)
	}
	calls = k.script.Calls()
	k.close(t, s)
	return want, loading, calls
}

// close closes a session and fails if it left buffers or programs.
func (k *faultyPair) close(t *testing.T, s *Session) {
	t.Helper()
	s.Close()
	if n := k.script.Live(); n != 0 {
		t.Fatalf("%d buffers and programs are left", n)
	}
}

// tooFew reports whether a session finished before the call at. The number of passes of some methods depends on
// their times, so the number of calls varies.
func (k *faultyPair) tooFew(at int) bool { return len(k.losses) == 0 && k.script.Calls() <= at }

// TestLostAtEveryCall loses the device at each call in turn, from loading to the end of the second request. The
// texts must not change.
func TestLostAtEveryCall(t *testing.T) {
	t.Attr("attack", "a device that is lost at a call of loading, prefill, drafting or verifying")
	t.Attr("bound", "opened again, and the same text goes on")
	recovered := 0
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			want, loading, calls := measured(t, use)
			points := chosen(loading, calls, 4)
			if name == "chain" { // loading is the same for all uses
				points = append(points, chosen(0, loading, 8)...)
			}
			for len(points) > 0 {
				at := points[0]
				points = points[1:]
				k := newFaultyPair(t, func(n int, _ faults.Call, _ string) faults.Fault {
					if n == at {
						return faults.Lost
					}
					return faults.None
				})
				s, err := k.open()
				if err != nil {
					t.Fatalf("at call %d: %v", at, err)
				}
				got, err := use(s)
				if err != nil || got != want {
					t.Fatalf("at call %d of %d: %q, %v, without a loss %q", at, calls, got, err, want)
				}
				if k.tooFew(at) {
					points = append(points, (loading+at)/2)
					k.close(t, s)
					continue
				}
				if len(k.losses) != 2 || k.losses[0].Recovered || !k.losses[1].Recovered {
					t.Fatalf("at call %d: reported %v", at, k.losses)
				}
				recovered++
				k.close(t, s)
			}
		})
	}
	t.Attr("measured", fmt.Sprintf("%d losses, %d ways to decode", recovered, len(uses)))
}

// openHead opens the built-in target with its EAGLE-3 head on cpu devices that fail as a script says.
func (k *faultyPair) openHead(t *testing.T) *Session {
	t.Helper()
	dev, err := k.device(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), dev, demoFile(t, demo.TargetName), nil,
		Options{Context: 96, Reopen: func(ctx context.Context) (webgpu.Device, error) { return k.reopen(ctx) },
			Lost:   func(l Loss) { k.losses = append(k.losses, l) },
			EAGLE3: demoFile(t, demo.HeadName), EAGLE3Config: demoFile(t, demo.ConfigName)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLostWithHead loses the device while an EAGLE-3 head drafts from the target's features: in a prefill that
// stores the features, in draft and verification, in one submit and in two, and again while the head is reloaded.
// The text and the numbers of drafted and accepted tokens must not change.
func TestLostWithHead(t *testing.T) {
	for name, c := range map[string]struct {
		r     Request
		reads []string // label parts of the reads to try
		alone bool     // draft and verification never share a submit
	}{
		"a tree": {Request{Policy: "eagle3", Depth: 3, TopK: 3, Nodes: 10}, []string{"verify"}, false},
		"a tree, sampled": {Request{Policy: "eagle3", Depth: 3, TopK: 3, Nodes: 10, Temperature: 0.9},
			[]string{"verify"}, false},
		"rejection": {Request{Policy: method.DrafterChain, Source: method.SourceEAGLE3, Depth: 4,
			Verifier: method.VerifierRejection, Temperature: 1}, []string{"reject"}, false},
		"draft, then pass": {Request{Policy: "adaedl", Source: method.SourceEAGLE3}, []string{"draft root", "verify"},
			true},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.MaxTokens, c.r.Seed, c.r.NoReuse = 8, 11, true
			use := func(s *Session) string {
				var texts []string
				for _, prompt := range []string{"func main() {\n", "package main\n\nimport \"fmt\"\n"} {
					out, err := s.Generate(context.Background(), prompt, c.r, nil)
					if err != nil {
						t.Fatal(err)
					}
					if out.Stats.Drafted == 0 {
						t.Fatalf("%q: nothing was drafted", prompt)
					}
					texts = append(texts, fmt.Sprint(out.TokenIDs, out.Finish, out.Stats.Drafted, out.Stats.Accepted))
				}
				return strings.Join(texts, "\n")
			}
			var trace []string
			quiet := newFaultyPair(t, func(_ int, c faults.Call, label string) faults.Fault {
				trace = append(trace, c.String()+" "+label)
				return faults.None
			})
			s := quiet.openHead(t)
			loading := len(trace)
			want := use(s)
			quiet.close(t, s)

			points := chosen(loading, len(trace), 1)
			for _, part := range append(c.reads, "prefill") {
				var at []int
				for n := loading; n < len(trace); n++ {
					kind, labels, _ := strings.Cut(trace[n], " ")
					if (kind == faults.Read.String() || kind == faults.Run.String()) && strings.Contains(labels, part) {
						at = append(at, n)
						if c.alone && strings.Contains(labels, "draft root") && strings.Contains(labels, "verify") {
							t.Fatalf("call %d drafts and verifies: %s", n, labels)
						}
					}
				}
				if len(at) < 2 {
					t.Fatalf("%d calls run %q", len(at), part)
				}
				for _, i := range chosen(0, len(at), 2) {
					points = append(points, at[i])
				}
			}
			for i := 0; i < len(points); i++ {
				at := points[i]
				again := -1 // every third time the device is lost again during the reload
				if i%3 == 2 {
					again = at + 1 + loading*(i%4+1)/5
				}
				k := newFaultyPair(t, func(n int, _ faults.Call, _ string) faults.Fault {
					if n == at || n == again {
						return faults.Lost
					}
					return faults.None
				})
				s := k.openHead(t)
				if got := use(s); got != want {
					t.Fatalf("at call %d, %s:\n%s\nwithout a loss\n%s", at, trace[at], got, want)
				}
				if k.tooFew(at) {
					points[i] = (loading + at) / 2
					i--
					k.close(t, s)
					continue
				}
				losses := 2
				if again >= 0 {
					losses++
				}
				if len(k.losses) != losses || !k.losses[losses-1].Recovered {
					t.Fatalf("at call %d, %s: reported %v", at, trace[at], k.losses)
				}
				k.close(t, s)
			}
		})
	}
}

// TestHungAtEveryRead leaves each read in turn unanswered.
func TestHungAtEveryRead(t *testing.T) {
	t.Attr("attack", "a read of the device that is never answered")
	t.Attr("bound", "a loss after the time-out, and the same text goes on")
	use := uses["tree, sampled"]
	var reads []int
	counting := newFaultyPair(t, func(n int, c faults.Call, _ string) faults.Fault {
		if c == faults.Read {
			reads = append(reads, n)
		}
		return faults.None
	})
	s, err := counting.open()
	if err != nil {
		t.Fatal(err)
	}
	want, err := use(s)
	if err != nil {
		t.Fatal(err)
	}
	counting.close(t, s)
	points := chosen(0, len(reads), 6)
	t.Attr("measured", fmt.Sprintf("%d of %d reads", len(points), len(reads)))
	for _, i := range points {
		k := newFaultyPair(t, func(n int, _ faults.Call, _ string) faults.Fault {
			if n == reads[i] {
				return faults.Hang
			}
			return faults.None
		})
		if s, err = k.open(); err != nil {
			t.Fatal(err)
		}
		got, err := use(s)
		if err != nil || got != want {
			t.Fatalf("read %d of %d: %q, %v, want %q", i, len(reads), got, err, want)
		}
		if len(k.losses) != 2 || !strings.Contains(k.losses[0].Reason, webgpu.ErrTimeout.Error()) {
			t.Fatalf("read %d: reported %v", i, k.losses)
		}
		k.close(t, s)
	}
}

// TestLostDuringRecovery loses the device again before the session has recovered. The session survives two losses
// in a row; after the third the request fails with an error that says so, and the next request succeeds.
func TestLostDuringRecovery(t *testing.T) {
	t.Attr("attack", "a device that is lost again while it recovers")
	t.Attr("bound", "three losses without a token in between end the request with the reason; the next one works")
	use := uses["chain"]
	want, loading, calls := measured(t, use)
	gaps := chosen(0, loading+20, 5)
	t.Attr("measured", fmt.Sprintf("2 to 4 losses, %d numbers of calls in between", len(gaps)))
	for _, gap := range gaps {
		for losses := 2; losses <= 4; losses++ {
			first, left := (loading+calls)/2, losses
			next := first
			k := newFaultyPair(t, func(n int, _ faults.Call, _ string) faults.Fault {
				if n != next || left == 0 {
					return faults.None
				}
				next, left = n+1+gap, left-1
				return faults.Lost
			})
			s, err := k.open()
			if err != nil {
				t.Fatal(err)
			}
			got, err := use(s)
			if gap < loading && losses > 2 { // no token between the losses
				if !errors.Is(err, webgpu.ErrDeviceLost) || !strings.Contains(err.Error(), "3 times in a row") {
					t.Fatalf("%d losses, %d calls in between: %q, %v", losses, gap, got, err)
				}
				if last := k.losses[len(k.losses)-1]; last.Times != 2 || last.Recovered {
					t.Fatalf("reported %v", k.losses)
				}
				got, err = use(s)
			}
			if err != nil || got != want {
				t.Fatalf("%d losses, %d calls in between: %q, %v, want %q", losses, gap, got, err, want)
			}
			k.close(t, s)
		}
	}
}

// TestLostIdle loses the device between two requests.
func TestLostIdle(t *testing.T) {
	use := uses["a conversation"]
	want, _, _ := measured(t, use)
	k := newFaultyPair(t, nil)
	s, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	for range 4 { // losses with tokens between them are not in a row
		s.pair.Device.Destroy()
		if got, err := use(s); err != nil || got != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	if len(k.losses) != 8 {
		t.Errorf("reported %v", k.losses)
	}
	k.close(t, s)
}

// TestNoMemoryAtEveryAllocation fails each allocation in turn. If loading fails, the error names the buffer and its
// size, and nothing is left allocated. If a request fails, the next one succeeds.
func TestNoMemoryAtEveryAllocation(t *testing.T) {
	t.Attr("attack", "a device without memory for a buffer")
	t.Attr("bound", "the error names the buffer and its size; nothing of a load is left; the next request works")
	use := uses["drawn trees"]
	var made []int
	counting := newFaultyPair(t, func(n int, c faults.Call, _ string) faults.Fault {
		if c == faults.NewBuffer {
			made = append(made, n)
		}
		return faults.None
	})
	s, err := counting.open()
	if err != nil {
		t.Fatal(err)
	}
	loading := len(made)
	want, err := use(s)
	if err != nil {
		t.Fatal(err)
	}
	counting.close(t, s)
	if loading < 50 || len(made) == loading {
		t.Fatalf("%d allocations to load, %d in all", loading, len(made))
	}
	points := append(chosen(0, loading, 12), chosen(loading, len(made), 4)...)
	t.Attr("measured", fmt.Sprintf("%d of %d allocations", len(points), len(made)))
	for _, i := range points {
		what := ""
		k := newFaultyPair(t, func(n int, _ faults.Call, label string) faults.Fault {
			if n != made[i] {
				return faults.None
			}
			what = label
			return faults.NoMemory
		})
		s, err := k.open()
		if (err != nil) != (i < loading) {
			t.Fatalf("allocation %d of %d: %v", i, loading, err)
		}
		if err == nil {
			_, err = use(s)
		} else if !errors.Is(err, ErrMemory) || errors.Is(err, ErrModel) {
			t.Errorf("allocation %d: %v is of another kind", i, err)
		}
		if !errors.Is(err, webgpu.ErrNoMemory) || !strings.Contains(err.Error(), what) ||
			strings.Contains(err.Error(), "\n") {
			t.Fatalf("allocation %d, %s: %v", i, what, err)
		}
		if len(k.losses) > 0 {
			t.Errorf("allocation %d: reported %v", i, k.losses)
		}
		if i < loading {
			if n := k.script.Live(); n != 0 {
				t.Fatalf("allocation %d, %s: %d buffers and programs are left", i, what, n)
			}
			if s, err = k.open(); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := use(s); err != nil || got != want {
			t.Fatalf("after allocation %d: %q, %v, want %q", i, got, err, want)
		}
		k.close(t, s)
	}
}

// TestReopening finds no device, then another one, then the device again.
func TestReopening(t *testing.T) {
	use := uses["chain"]
	want, _, _ := measured(t, use)
	k := newFaultyPair(t, nil)
	s, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	s.pair.Device.Destroy()
	gone := errors.New("test: no device")
	k.reopen = func(ctx context.Context) (webgpu.Device, error) { return nil, gone }
	if _, err := use(s); !errors.Is(err, gone) || !errors.Is(err, webgpu.ErrDeviceLost) {
		t.Fatalf("no device available: %v", err)
	}
	k.reopen = func(ctx context.Context) (webgpu.Device, error) {
		dev, err := k.device(ctx)
		return renamed{dev}, err
	}
	if _, err := use(s); !errors.Is(err, webgpu.ErrDeviceLost) || !strings.Contains(err.Error(), "another abacus") ||
		strings.Contains(err.Error(), "in a row") {
		t.Fatalf("another device in its place: %v", err)
	}
	k.reopen = k.device
	if got, err := use(s); err != nil || got != want {
		t.Fatalf("%q, %v, want %q", got, err, want)
	}
	s.pair.Device.Destroy()
	tried := 0
	k.reopen = func(ctx context.Context) (webgpu.Device, error) {
		if tried++; tried == 1 {
			return nil, webgpu.ErrUnavailable
		}
		return k.device(ctx)
	}
	if got, err := use(s); err != nil || got != want || tried != 2 {
		t.Fatalf("no device is available at first: %q, %v after %d attempts, want %q", got, err, tried, want)
	}
	k.close(t, s)
	if _, err := use(s); !errors.Is(err, pair.ErrClosed) {
		t.Fatalf("after closing: %v", err)
	}
}

// TestReloadingAChangedFile changes the draft's weights while the device is lost: the request is refused, the session
// still describes the models that it had, and goes on once the file is back.
func TestReloadingAChangedFile(t *testing.T) {
	use := uses["chain"]
	want, _, _ := measured(t, use)
	k := newFaultyPair(t, nil)
	draft := &changing{Source: k.draft}
	k.draft = draft
	s, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	before := s.Info()
	for _, draft.changed = range []bool{true, false} {
		s.pair.Device.Destroy()
		got, err := use(s)
		if draft.changed && (err == nil || !strings.Contains(err.Error(), "changed since it was loaded")) ||
			!draft.changed && (err != nil || got != want) {
			t.Fatalf("changed %t: %q, %v, want %q", draft.changed, got, err, want)
		}
		if now := s.Info(); !reflect.DeepEqual(now, before) {
			t.Errorf("changed %t: the session is %+v, was %+v", draft.changed, now, before)
		}
	}
	k.close(t, s)
}

// changing is a file whose last byte changes.
type changing struct {
	files.Source
	changed bool
}

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Source.ReadAt(p, off)
	if c.changed && n > 0 && off+int64(n) == c.Size() {
		p[n-1]++
	}
	return n, err
}

// renamed is a device with the name of another adapter.
type renamed struct{ webgpu.Device }

func (r renamed) Info() webgpu.Info {
	i := r.Device.Info()
	i.Adapter = "another abacus"
	return i
}
