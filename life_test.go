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

	"foretoken/models/constrain"
	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/native"
)

// soaking returns how often to repeat a test and whether it runs in its long form: short times, or with
// FORETOKEN_SOAK that share of long.
func soaking(t *testing.T, short, long int) (n int, soak bool) {
	t.Helper()
	s := os.Getenv("FORETOKEN_SOAK")
	if s == "" {
		return short, false
	}
	share, err := strconv.ParseFloat(s, 64)
	if err != nil || share <= 0 {
		t.Fatalf("FORETOKEN_SOAK is %q, want a share of the long form: 1 is all of it", s)
	}
	return max(1, int(share*float64(long))), true
}

// footprint samples the resources of a process.
type footprint struct {
	turns, tokens int
	heap          int64 // live bytes of Go's heap
	goroutines    int
	rss           int64 // resident bytes; 0 if the system does not report them
	files         int   // open file descriptors
	made          [3]int
	handles       native.Handles // nil if the device does not count them
}

func (l footprint) String() string {
	return fmt.Sprintf("%4d turns, %6d tokens: heap %.2f MiB, RSS %.1f MiB, %d goroutines, %d files, made %v, "+
		"handles %v",
		l.turns, l.tokens, float64(l.heap)/(1<<20), float64(l.rss)/(1<<20), l.goroutines, l.files, l.made, l.handles)
}

// sample measures the process and the device.
func (l *footprint) sample(t *testing.T, dev webgpu.Device) {
	t.Helper()
	runtime.GC()
	runtime.GC() // frees the memory of finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heap, l.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	for range 10 { // waits for goroutines that are about to end
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

const lifeTemplate = "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}{% if " +
	"add_generation_prompt %}// assistant: {% endif %}"

// TestLongLife holds conversations with the built-in pair, one after another, with every way to decode: with
// FORETOKEN_SOAK=1 a thousand turns and two hundred thousand tokens. It samples the process and the device before
// each conversation; after warmup the samples stay constant. A full context drops the oldest turns, complete ones
// and no more than necessary. Every eleventh answer is compared with plain decoding.
func TestLongLife(t *testing.T) {
	turns, soak := soaking(t, 18, 1000)
	tokens, _ := soaking(t, 0, 200_000)
	each := 6 // turns per conversation
	if soak {
		each = 44
	}
	for _, kind := range deviceKinds {
		if kind == "cpu" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			s := openPair(t, kerneltest.OwnAccelerator(t), demo.Target(), demo.Draft(), Options{Context: 256})
			samples := (&conversations{t: t, s: s, each: each, long: soak}).run(turns, tokens)
			samples = samples[1:] // the first conversation creates the resources of the session
			quarter := max(len(samples)/4, 1)
			early, late := samples[quarter:min(2*quarter, len(samples)-1)], samples[len(samples)-quarter:]
			if len(early) == 0 {
				early = samples[:1]
			}
			constant(t, early, late, soak)
		})
	}
}

// constant compares late samples with early ones.
func constant(t *testing.T, early, late []footprint, soak bool) {
	t.Helper()
	median := func(of []footprint, value func(footprint) int64) int64 {
		var all []int64
		for _, l := range of {
			all = append(all, value(l))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	const words = 1 << 20 // the tokenizer's cache of up to 16,384 words fills with new words
	for what, by := range map[string]struct {
		value func(footprint) int64
		slack int64
	}{
		"bytes of heap":   {func(l footprint) int64 { return l.heap }, words},
		"goroutines":      {func(l footprint) int64 { return int64(l.goroutines) }, 0},
		"files":           {func(l footprint) int64 { return int64(l.files) }, 0},
		"buffers made":    {func(l footprint) int64 { return int64(l.made[0]) }, 0},
		"kernels made":    {func(l footprint) int64 { return int64(l.made[1]) }, 0},
		"programs made":   {func(l footprint) int64 { return int64(l.made[2]) }, 0},
		"resident memory": {func(l footprint) int64 { return l.rss }, 16 << 20},
	} {
		if what == "resident memory" && !soak {
			continue // the collector takes longer than a short run to settle
		}
		before, after := median(early, by.value), median(late, by.value)
		t.Attr(strings.ReplaceAll(what, " ", "-")+"/first", strconv.FormatInt(before, 10))
		t.Attr(strings.ReplaceAll(what, " ", "-")+"/last", strconv.FormatInt(after, 10))
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

// conversations holds conversations with one session and counts their turns and tokens.
type conversations struct {
	t      *testing.T
	s      *Session
	each   int // turns per conversation
	long   bool
	turns  int
	tokens int // tokens

	overflows, compared int
}

// run holds complete conversations until they have the given turns and tokens, and returns the samples taken before
// each of them and at the end.
func (k *conversations) run(turns, tokens int) []footprint {
	k.t.Helper()
	var samples []footprint
	begun, said := time.Now(), time.Now()
	for n := 0; k.turns < turns || k.tokens < tokens; n++ {
		now := footprint{turns: k.turns, tokens: k.tokens}
		now.sample(k.t, k.s.pair.Device)
		samples = append(samples, now)
		if n < 3 || time.Since(said) > 20*time.Second {
			said = time.Now()
			k.t.Logf("%4.0f s: %v", time.Since(begun).Seconds(), now)
		}
		k.converse(n)
		if k.t.Failed() {
			k.t.FailNow()
		}
	}
	now := footprint{turns: k.turns, tokens: k.tokens}
	now.sample(k.t, k.s.pair.Device)
	k.t.Logf("%4.0f s: %v; the context overflowed %d times, %d answers were compared with plain decoding",
		time.Since(begun).Seconds(), now, k.overflows, k.compared)
	k.t.Attr("turns", strconv.Itoa(now.turns))
	k.t.Attr("tokens", strconv.Itoa(now.tokens))
	k.t.Attr("overflows", strconv.Itoa(k.overflows))
	k.t.Attr("compared", strconv.Itoa(k.compared))
	if k.overflows == 0 || k.compared == 0 {
		k.t.Errorf("%d overflows, %d comparisons: the conversations were too short", k.overflows, k.compared)
	}
	return append(samples, now)
}

// ways are the requests of successive turns. Their order is the same in every conversation, so all conversations
// need the same resources. The constrained request decodes plainly: a mask needs a program per tree size, created
// with the first tree of that size, and the sizes that auto grows depend on the clock.
var ways = []Request{
	{Policy: method.DrafterAuto}, {Policy: method.DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12},
	{Policy: method.DrafterNone, Temperature: 0.8},
	{Policy: method.DrafterNgram}, {Policy: method.DrafterAuto, Temperature: 0.8},
	{Policy: method.DrafterChain, Depth: 3, Temperature: 0.8},
	{Policy: method.DrafterAuto}, {Policy: method.DrafterNone}, {Policy: method.DrafterAuto},
	{Policy: method.DrafterNone, Constraints: constrain.Constraints{JSONObject: true}},
	{Policy: method.DrafterAuto, Temperature: 1},
}

// converse holds one conversation.
func (k *conversations) converse(n int) {
	t, ctx := k.t, context.Background()
	t.Helper()
	c, err := k.s.NewChat(ChatOptions{Template: lifeTemplate, System: "a Go program"})
	if err != nil {
		t.Fatal(err)
	}
	context := k.s.pair.Target.Limits().Context
	head, turns, dropped := c.Messages(), [][]Message(nil), 0
	for i := range k.each {
		r := ways[i%len(ways)]
		r.Seed = uint64(n*k.each + i + 1)
		r.MaxTokens = []int{12, 16, 40, 24, 8, 30}[i%6]
		if i%6 == 2 || k.long && i%3 != 0 {
			r.MaxTokens = context - 80 // nearly fills the context
		}
		reserve := min(context/4, r.MaxTokens)
		m := Message{Role: RoleUser, Content: []string{"func main() {", "a loop over the lines of a file",
			"type T struct", "return the first error", "// é世"}[i%5]}
		turns = append(turns, []Message{m})
		var ids []int32
		before := dropped
		for ; ; dropped++ { // the documented rule
			seen := slices.Concat(append([][]Message{head}, turns[dropped:]...)...)
			if ids, err = c.template.encode(seen, nil); err != nil {
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
			t.Errorf("conversation %d, turn %d: %d turns dropped, %d unseen, a prompt of %d tokens; want %d, %d and %d",
				n, i, reply.Dropped, reply.Unseen, len(reply.PromptIDs), dropped-before, dropped, len(ids))
		}
		if dropped > before {
			k.overflows++
		}
		turns[len(turns)-1] = append(turns[len(turns)-1], reply.Message)
		k.turns, k.tokens = k.turns+1, k.tokens+len(reply.TokenIDs)
		if k.turns%11 == 3 {
			r.Policy, r.Depth, r.TopK, r.Nodes, r.NoReuse = method.DrafterNone, 0, 0, 0, true
			plain, err := k.s.GenerateIDs(ctx, ids, r, nil)
			if err != nil || !slices.Equal(plain.TokenIDs, reply.TokenIDs) {
				t.Errorf("conversation %d, turn %d: %q, plain decoding gives %q, %v", n, i, reply.Text, plain.Text, err)
			}
			k.compared++
		}
	}
}

// TestOpenedAndClosed opens and closes the built-in pair repeatedly on one device and compares the resources left.
func TestOpenedAndClosed(t *testing.T) {
	times, soak := soaking(t, 3, 50)
	dev := kerneltest.OwnAccelerator(t)
	var samples []footprint
	var o Options
	for range times + 1 {
		s, err := Open(context.Background(), dev, demo.Target(), demo.Draft(), o)
		if err != nil {
			t.Fatal(err)
		}
		o.Tuning = s.Tuning() // keeps the kernels the same; choices by the clock may change them
		if _, err := s.Generate(context.Background(), "func", Request{Policy: method.DrafterChain, MaxTokens: 4},
			nil); err != nil {
			t.Fatal(err)
		}
		s.Close()
		// Wait for the device: the library frees its memory only then.
		b, err := dev.NewBuffer("last", 4, webgpu.Storage)
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.Run(nil, webgpu.Region{Buffer: b, Dst: make([]byte, 4)}); err != nil {
			t.Fatal(err)
		}
		dev.FreeBuffer(b)
		var now footprint
		now.sample(t, dev)
		now.made = [3]int{} // grows with every session by design
		samples = append(samples, now)
	}
	t.Logf("after one: %v", samples[0])
	constant(t, samples[1:max(2, len(samples)/2)], samples[max(2, len(samples)/2):], soak)
}
