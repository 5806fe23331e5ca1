//go:build !js

package foretoken

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"foretoken/models/demo"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/native"
	"foretoken/webgpu/open"
)

// soaking tells whether tests run in their long form, and how often what is counted is to happen: short times, or
// with FORETOKEN_SOAK long ones or what the variable of that name says.
func soaking(t *testing.T, name string, short, long int) (n int, soak bool) {
	t.Helper()
	if os.Getenv("FORETOKEN_SOAK") == "" {
		return short, false
	}
	if s := os.Getenv(name); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q, want a number from 1", name, s)
		}
		return n, true
	}
	return long, true
}

// life is what a process holds at a moment.
type life struct {
	turns, tokens int
	heap          int64 // bytes of Go's heap that are alive
	goroutines    int
	rss           int64 // bytes of memory the system counts; 0 where it does not tell
	files         int   // descriptors
	made          [3]int
	handles       native.Handles // nil where the device does not count them
}

func (l life) String() string {
	return fmt.Sprintf("%4d turns, %6d tokens: heap %.2f MiB, RSS %.1f MiB, %d goroutines, %d files, made %v, handles %v",
		l.turns, l.tokens, float64(l.heap)/(1<<20), float64(l.rss)/(1<<20), l.goroutines, l.files, l.made, l.handles)
}

// look takes a life's sample.
func (l *life) look(t *testing.T, dev webgpu.Device) {
	t.Helper()
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heap, l.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	for range 10 { // one that is about to end is not held
		time.Sleep(time.Millisecond)
		l.goroutines = min(l.goroutines, runtime.NumGoroutine())
	}
	c := dev.Counters()
	l.made = [3]int{c.Buffers, c.Kernels, c.Programs}
	if d, ok := dev.(*native.Device); ok {
		var err error
		if l.handles, err = d.Handles(); err != nil {
			t.Fatal(err)
		}
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
				n, _ := strconv.ParseInt(f[1], 10, 64)
				l.rss = n << 10
			}
		}
	}
	open, _ := filepath.Glob("/proc/self/fd/*")
	l.files = len(open)
}

const lifeTemplate = "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}// assistant: {% endif %}"

// TestLongLife holds conversations with the built-in pair, one after another, in every way to decode: with FORETOKEN_SOAK
// a thousand turns and two hundred thousand tokens (FORETOKEN_TURNS, FORETOKEN_TOKENS). Whenever a conversation begins
// it looks at what the process and the device hold: once warm, that stays the same. A full context drops the oldest
// turns, whole ones and no more than it takes, and every eleventh answer is compared with plain decoding.
func TestLongLife(t *testing.T) {
	turns, soak := soaking(t, "FORETOKEN_TURNS", 24, 1000)
	tokens, _ := soaking(t, "FORETOKEN_TOKENS", 0, 200_000)
	each := 6 // turns of a conversation
	if soak {
		each = 44
	}
	for _, kind := range deviceKinds {
		if only := os.Getenv("FORETOKEN_SOAK_DEVICE"); only != "" && only != kind || only == "" && kind == "cpu" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			s := openPair(t, kind, demo.Target(), demo.Draft(), Options{})
			lives := (&talk{t: t, s: s, each: each, long: soak}).live(turns, tokens)
			lives = lives[1:] // the first conversation makes what is made once
			quarter := max(len(lives)/4, 1)
			early, late := lives[quarter:min(2*quarter, len(lives)-1)], lives[len(lives)-quarter:]
			if len(early) == 0 {
				early = lives[:1]
			}
			flat(t, early, late, soak)
		})
	}
}

// flat compares samples of a later time with those of an earlier one.
func flat(t *testing.T, early, late []life, soak bool) {
	t.Helper()
	median := func(of []life, value func(life) int64) int64 {
		var all []int64
		for _, l := range of {
			all = append(all, value(l))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	const words = 1 << 20 // the tokenizer's cache of up to 16,384 words fills as new ones are written
	for what, by := range map[string]struct {
		value func(life) int64
		slack int64
	}{
		"bytes of heap":   {func(l life) int64 { return l.heap }, words},
		"goroutines":      {func(l life) int64 { return int64(l.goroutines) }, 0},
		"files":           {func(l life) int64 { return int64(l.files) }, 0},
		"buffers made":    {func(l life) int64 { return int64(l.made[0]) }, 0},
		"kernels made":    {func(l life) int64 { return int64(l.made[1]) }, 0},
		"programs made":   {func(l life) int64 { return int64(l.made[2]) }, 0},
		"resident memory": {func(l life) int64 { return l.rss }, 16 << 20},
	} {
		if what == "resident memory" && !soak {
			continue // the collector has not found its pace within seconds
		}
		before, after := median(early, by.value), median(late, by.value)
		t.Logf("%s: %d, later %d", what, before, after)
		if after > before+by.slack {
			t.Errorf("%s: %d, later %d, which is more than %d above it", what, before, after, by.slack)
		}
	}
	before, after := early[len(early)-1].handles, late[len(late)-1].handles
	t.Logf("handles: %v, later %v", before, after)
	if !maps.Equal(before, after) {
		t.Errorf("handles of the device: %v, later %v", before, after)
	}
}

// talk is conversations under way.
type talk struct {
	t     *testing.T
	s     *Session
	each  int // turns of one
	long  bool
	turns int
	told  int // tokens

	overflows, compared int
}

// live talks for so many turns and tokens, whole conversations of them, and gives what it saw before each.
func (k *talk) live(turns, tokens int) []life {
	k.t.Helper()
	var lives []life
	begun, said := time.Now(), time.Now()
	for n := 0; k.turns < turns || k.told < tokens; n++ {
		now := life{turns: k.turns, tokens: k.told}
		now.look(k.t, k.s.dev)
		lives = append(lives, now)
		if n < 3 || time.Since(said) > 20*time.Second {
			said = time.Now()
			k.t.Logf("%4.0f s: %v", time.Since(begun).Seconds(), now)
		}
		k.converse(n)
		if k.t.Failed() {
			k.t.FailNow()
		}
	}
	now := life{turns: k.turns, tokens: k.told}
	now.look(k.t, k.s.dev)
	k.t.Logf("%4.0f s: %v; the context overflowed %d times, %d answers were compared with plain decoding", time.Since(begun).Seconds(), now, k.overflows, k.compared)
	if k.overflows == 0 || k.compared == 0 {
		k.t.Errorf("%d overflows, %d comparisons: the conversations were too short", k.overflows, k.compared)
	}
	return append(lives, now)
}

// ways are the turns' requests, one after another; their order does not depend on a conversation's number, so that all
// conversations are alike. The constrained one decodes plainly: of trees a mask needs a program for each size, made when
// the first tree of that size is met, and what sizes auto grows depends on the clock.
var ways = []Request{
	{Policy: spec.DrafterAuto}, {Policy: spec.DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12}, {Policy: spec.DrafterNone, Temperature: 0.8},
	{Policy: spec.DrafterNgram}, {Policy: spec.DrafterAuto, Temperature: 0.8}, {Policy: spec.DrafterChain, Depth: 3, Temperature: 0.8},
	{Policy: spec.DrafterAuto}, {Policy: spec.DrafterNone}, {Policy: spec.DrafterAuto}, {Policy: spec.DrafterNone, Constraints: Constraints{JSONObject: true}}, {Policy: spec.DrafterAuto, Temperature: 1},
}

// converse holds one conversation.
func (k *talk) converse(n int) {
	t, ctx := k.t, context.Background()
	t.Helper()
	c, err := k.s.NewChat(ChatOptions{Template: lifeTemplate, System: "a Go program"})
	if err != nil {
		t.Fatal(err)
	}
	context := k.s.target.Limits().Context
	head, turns, dropped := c.Messages(), [][]Message(nil), 0
	for i := range k.each {
		r := ways[i%len(ways)]
		r.Seed = uint64(n*k.each + i + 1)
		r.MaxTokens = []int{12, 16, 40, 24, 8, 30}[i%6]
		if i%6 == 2 || k.long && i%3 != 0 {
			r.MaxTokens = context - 80 // an answer that nearly fills the context
		}
		reserve := min(context/4, r.MaxTokens)
		m := Message{Role: RoleUser, Content: []string{"func main() {", "a loop over the lines of a file", "type T struct", "return the first error", "// é世"}[i%5]}
		turns = append(turns, []Message{m})
		var ids []int32
		before := dropped
		for ; ; dropped++ { // the policy, from its description
			seen := slices.Concat(append([][]Message{head}, turns[dropped:]...)...)
			if ids, err = c.template.encode(seen); err != nil {
				t.Fatal(err)
			}
			if len(ids)+reserve <= context {
				break
			}
		}
		reply, err := c.Send(ctx, m, r, nil)
		if err != nil {
			t.Fatalf("conversation %d, turn %d: %v", n, i, err)
		}
		if !slices.Equal(reply.PromptIDs, ids) || reply.Dropped != dropped-before || reply.Unseen != dropped {
			t.Errorf("conversation %d, turn %d: %d turns dropped, %d unseen, a prompt of %d tokens; want %d, %d and %d", n, i, reply.Dropped, reply.Unseen, len(reply.PromptIDs), dropped-before, dropped, len(ids))
		}
		if dropped > before {
			k.overflows++
		}
		turns[len(turns)-1] = append(turns[len(turns)-1], reply.Message)
		k.turns, k.told = k.turns+1, k.told+len(reply.TokenIDs)
		if k.turns%11 == 3 {
			r.Policy, r.Depth, r.TopK, r.Nodes, r.NoReuse = spec.DrafterNone, 0, 0, 0, true
			plain, err := k.s.GenerateIDs(ctx, ids, r, nil)
			if err != nil || !slices.Equal(plain.TokenIDs, reply.TokenIDs) {
				t.Errorf("conversation %d, turn %d: %q, plain decoding gives %q, %v", n, i, reply.Text, plain.Text, err)
			}
			k.compared++
		}
	}
}

// TestOpenedAndClosed opens and closes the built-in pair on one device, and counts what that leaves.
func TestOpenedAndClosed(t *testing.T) {
	times, soak := soaking(t, "FORETOKEN_OPENINGS", 3, 50)
	dev, _, err := open.Device(context.Background(), open.Accelerator)
	if err != nil {
		if os.Getenv("FORETOKEN_REQUIRE_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(dev.Destroy)
	var lives []life
	var o Options
	for range times + 1 {
		s, err := Open(context.Background(), dev, demo.Target(), demo.Draft(), o)
		if err != nil {
			t.Fatal(err)
		}
		o.Tuning = s.Tuning() // choices by the clock would ask for other kernels from time to time
		if _, err := s.Generate(context.Background(), "func", Request{Policy: spec.DrafterChain, MaxTokens: 4}, nil); err != nil {
			t.Fatal(err)
		}
		s.Close()
		b, err := dev.NewBuffer("last", 4, webgpu.Storage) // a wait for the device, after which the library lets go of what was freed
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.Run(nil, webgpu.Region{Buffer: b, Dst: make([]byte, 4)}); err != nil {
			t.Fatal(err)
		}
		dev.FreeBuffer(b)
		var now life
		now.look(t, dev)
		now.made = [3]int{} // more each time, by its nature
		lives = append(lives, now)
	}
	t.Logf("after one: %v", lives[0])
	flat(t, lives[1:max(2, len(lives)/2)], lives[max(2, len(lives)/2):], soak)
}
