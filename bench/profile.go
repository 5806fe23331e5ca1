package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"foretoken"
	"foretoken/spec"
	"foretoken/webgpu"
)

// ProfileOptions selects what Profile measures. The zero value profiles a step of plain decoding, a verification of
// 8 rows and the draft's passes over one token, and counts rounds of plain decoding and of the default method.
type ProfileOptions struct {
	Rows   int // of the verification; 0: 8, or as many as the target verifies
	Beams  int // of a level of the draft; 0: 1
	Length int // tokens in the cache before a pass; 0: 64, or as many as fit
	Repeat int // timed passes of each kind; 0: 9
	// Methods are the methods whose rounds are counted while they continue Prompt by their own number of tokens.
	Methods []Method
	Prompt  string // empty: the beginning of a Go function
	// Progress receives the passes and methods done.
	Progress func(done, total int)
}

// ProfileReport shows where the time of a pair's passes and rounds goes on a device.
type ProfileReport struct {
	Device string         `json:"device"`
	Target string         `json:"target"`
	Draft  string         `json:"draft,omitempty"`
	Length int            `json:"length"` // tokens in the cache
	Clock  string         `json:"clock"`  // of the kernels' times, see webgpu.Profile
	Passes []PassProfile  `json:"passes"`
	Rounds []RoundProfile `json:"rounds"`
}

// Traffic is the average exchange of a pass or a round with the device.
type Traffic struct {
	Submits      float64 `json:"submits"`
	Readbacks    float64 `json:"readbacks"`
	BytesWritten float64 `json:"bytes_written"`
	BytesRead    float64 `json:"bytes_read"`
	Creations    float64 `json:"creations"` // buffers, kernels and programs made
}

// PassProfile is one kind of pass. Times are in milliseconds.
type PassProfile struct {
	Name       string  `json:"name"`
	MS         float64 `json:"ms"`        // median from the call to its results
	WaitMS     float64 `json:"wait_ms"`   // median of the part spent waiting for the device
	KernelMS   float64 `json:"kernel_ms"` // sum of its kernels, each timed alone
	Dispatches int     `json:"dispatches"`
	Traffic
	Kernels []KernelProfile `json:"kernels"` // slowest first
}

// KernelProfile is a kernel in a pass: dispatches of one specialisation and as many workgroups.
type KernelProfile struct {
	Kernel string  `json:"kernel"`
	Groups [3]int  `json:"groups"`
	Calls  int     `json:"calls"`
	MS     float64 `json:"ms"`      // of all calls
	MeanMS float64 `json:"mean_ms"` // of one
	Share  float64 `json:"share"`   // of the pass's KernelMS
}

// RoundProfile holds the averages of a method's rounds without the first of the text. Times are in milliseconds.
type RoundProfile struct {
	Method     string  `json:"method"`
	Rounds     int     `json:"rounds"`
	Tokens     float64 `json:"tokens"` // committed a round
	MS         float64 `json:"ms"`
	DraftMS    float64 `json:"draft_ms"`
	VerifyMS   float64 `json:"verify_ms"`
	ReadbackMS float64 `json:"readback_ms"` // the part of both spent waiting for results
	HostMS     float64 `json:"host_ms"`     // the rest of the round: planning, verifying, committing
	// CPUMS is the round without the wait for the device: Go, and in the browser JavaScript.
	CPUMS float64 `json:"cpu_ms"`
	Traffic
	Allocs     float64 `json:"allocs"` // on Go's heap, the time between rounds included
	AllocBytes float64 `json:"alloc_bytes"`
}

// complete fills in defaults and refuses what the models cannot run.
func (o *ProfileOptions) complete(m *foretoken.Models) error {
	most, room := maxRows(m), contextOfBoth(m)
	o.Rows, o.Beams, o.Repeat = cmp.Or(o.Rows, min(8, most)), cmp.Or(o.Beams, 1), cmp.Or(o.Repeat, 9)
	if o.Length == 0 {
		o.Length = max(1, min(defaultLength, room-o.Rows-1))
	}
	if o.Rows < 1 || o.Rows > most || o.Repeat < 1 || o.Length < 1 || o.Length+o.Rows+1 > room {
		return fmt.Errorf("foretoken: profile: %d passes of %d rows after %d tokens; want 1 or more, 1 to %d, "+
			"and together less than the context of %d", o.Repeat, o.Rows, o.Length, most, room)
	}
	if m.Draft != nil {
		if widest := min(m.Draft.Limits().TopK, m.Draft.Limits().MaxRows); o.Beams < 1 || o.Beams > widest {
			return fmt.Errorf("foretoken: profile: %d beams; want 1 to %d", o.Beams, widest)
		}
	}
	if len(o.Methods) == 0 {
		names := "none:name=plain,auto"
		if m.Draft == nil {
			names = "none:name=plain,ngram"
		}
		var err error
		if o.Methods, err = ParseMethods(names,
			foretoken.Request{MaxTokens: foretoken.DefaultRequest().MaxTokens, Seed: 1}); err != nil {
			return err
		}
	}
	if o.Prompt == "" {
		o.Prompt = "func main() {\n"
	}
	return nil
}

// Profile shows where time goes: by kernel for the passes of both models, and by phase for rounds of some methods.
// It ends any running generation.
func Profile(ctx context.Context, s *foretoken.Session, o ProfileOptions) (*ProfileReport, error) {
	var passes []profiledPass
	err := s.Exclusive(ctx, func(m foretoken.Models) error {
		if _, ok := m.Device.(webgpu.Profiler); !ok {
			return errors.New("foretoken: profile: the device cannot time its dispatches")
		}
		if err := o.complete(&m); err != nil {
			return err
		}
		passes = profiledPasses(ctx, &m, &o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, m := range o.Methods {
		if err := s.Check(m.Request); err != nil {
			return nil, fmt.Errorf("foretoken: profile: method %s: %w", m.Name, err)
		}
	}
	r := &ProfileReport{Length: o.Length}
	r.Device, r.Target, r.Draft = Describe(s)
	done := func() {
		if o.Progress != nil {
			o.Progress(len(r.Passes)+len(r.Rounds), len(passes)+len(o.Methods))
		}
	}
	for _, m := range o.Methods {
		round, err := profileRounds(ctx, s, m, o.Prompt)
		if err != nil {
			return nil, err
		}
		r.Rounds = append(r.Rounds, *round)
		done()
	}
	// called again after a loss, it continues with the pass where it stopped
	err = s.Exclusive(ctx, func(m foretoken.Models) error {
		defer m.Reset()
		if err := prepareProfile(ctx, &m, &o); err != nil {
			return err
		}
		for len(r.Passes) < len(passes) {
			pass, err := profilePass(ctx, m.Device, &passes[len(r.Passes)], o.Repeat, &r.Clock)
			if err != nil {
				return err
			}
			r.Passes = append(r.Passes, *pass)
			m.Progressed()
			done()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// prepareProfile compiles the programs of the passes and fills the caches: rounds moved the sequences, and kernels
// that run alone leave garbage behind.
func prepareProfile(ctx context.Context, m *foretoken.Models, o *ProfileOptions) error {
	if err := m.Target.Prepare(spec.Programs{Budget: spec.Budget{Nodes: o.Rows}}); err != nil {
		return err
	}
	if m.Draft != nil {
		if err := m.Draft.Prepare(spec.Programs{Draft: spec.DraftTree, Depth: 1, Widths: []int{o.Beams}}); err != nil {
			return err
		}
	}
	return fillCaches(ctx, m, o.Length)
}

// profiledPass is a pass with the work that must precede each run.
type profiledPass struct {
	name        string
	before, run func() error
}

func profiledPasses(ctx context.Context, m *foretoken.Models, o *ProfileOptions) []profiledPass {
	verify := func(n int) func() error {
		tree := fillerTree(m, n)
		return func() error {
			_, err := m.Target.Verify(ctx, spec.PassRequest{Tree: tree})
			return err
		}
	}
	passes := []profiledPass{{name: "plain step", run: verify(1)}}
	if o.Rows > 1 {
		passes = append(passes, profiledPass{name: fmt.Sprintf("verification of %d rows", o.Rows), run: verify(o.Rows)})
	}
	if m.Draft == nil {
		return passes
	}
	pending := fillerTokens(m, 1)
	root := func() error {
		_, err := m.Draft.Draft(ctx, spec.DraftRequest{Pending: pending, K: o.Beams})
		return err
	}
	level := func() error {
		_, err := m.Draft.Extend(ctx, spec.Extension{Passes: 1})
		return err
	}
	name := "draft level"
	if o.Beams > 1 {
		name = fmt.Sprintf("draft level of %d beams", o.Beams)
	}
	return append(passes, profiledPass{name: "draft root", run: root},
		profiledPass{name: name, before: root, run: level})
}

// once runs the pass after its preparation and times the pass alone.
func (p *profiledPass) once(dev webgpu.Device) (took time.Duration, c webgpu.Counters, err error) {
	if p.before != nil {
		if err := p.before(); err != nil {
			return 0, c, err
		}
	}
	before, begin := dev.Counters(), time.Now()
	err = p.run()
	return time.Since(begin), countersSince(dev, before), err
}

// countersSince returns the device's counters relative to an earlier moment.
func countersSince(dev webgpu.Device, before webgpu.Counters) webgpu.Counters {
	c := dev.Counters()
	return webgpu.Counters{Buffers: c.Buffers - before.Buffers, Kernels: c.Kernels - before.Kernels,
		Programs: c.Programs - before.Programs, Submits: c.Submits - before.Submits, Reads: c.Reads - before.Reads,
		BytesWritten: c.BytesWritten - before.BytesWritten, BytesRead: c.BytesRead - before.BytesRead,
		ReadWait: c.ReadWait - before.ReadWait}
}

// traffic averages counters over n passes or rounds.
func traffic(c webgpu.Counters, n int) Traffic {
	per := func(x int64) float64 { return float64(x) / float64(max(n, 1)) }
	return Traffic{Submits: per(int64(c.Submits)), Readbacks: per(int64(c.Reads)), BytesWritten: per(c.BytesWritten),
		BytesRead: per(c.BytesRead), Creations: per(int64(c.Buffers + c.Kernels + c.Programs))}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// profilePass times a pass and then each of its kernels.
func profilePass(ctx context.Context, dev webgpu.Device, p *profiledPass, repeat int,
	clock *string) (*PassProfile, error) {
	device := dev.(webgpu.Profiler)           // the device that replaces a lost one is of the same kind
	if _, _, err := p.once(dev); err != nil { // untimed: includes work of the first use
		return nil, err
	}
	var whole, waited []float64
	var all webgpu.Counters
	for range repeat {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		took, c, err := p.once(dev)
		if err != nil {
			return nil, err
		}
		whole, waited, all = append(whole, milliseconds(took)), append(waited, milliseconds(c.ReadWait)), c
	}
	out := &PassProfile{Name: p.name, MS: median(whole), WaitMS: median(waited), Traffic: traffic(all, 1)}
	var ran []webgpu.Program
	if p.before != nil {
		if err := p.before(); err != nil {
			return nil, err
		}
	}
	device.Watch(func(programs []webgpu.Program) { ran = append(ran, programs...) })
	err := p.run()
	device.Watch(nil)
	if err != nil {
		return nil, err
	}
	type kind struct {
		key    string
		groups [3]int
	}
	at := map[kind]int{}
	profiles := map[webgpu.Program]webgpu.Profile{}
	for _, program := range ran {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		profile, ok := profiles[program]
		if !ok {
			if profile, err = device.Profile(program); err != nil {
				return nil, err
			}
			profiles[program], *clock = profile, profile.Clock
		}
		for _, d := range profile.Dispatches {
			k := kind{d.Key, d.Groups}
			i, known := at[k]
			if !known {
				i = len(out.Kernels)
				at[k] = i
				out.Kernels = append(out.Kernels, KernelProfile{Kernel: d.Kernel, Groups: d.Groups})
			}
			out.Kernels[i].Calls++
			out.Kernels[i].MS += milliseconds(d.Time)
			out.Dispatches++
			out.KernelMS += milliseconds(d.Time)
		}
	}
	for i := range out.Kernels {
		k := &out.Kernels[i]
		k.MeanMS = k.MS / float64(k.Calls)
		if out.KernelMS > 0 {
			k.Share = k.MS / out.KernelMS
		}
	}
	slices.SortStableFunc(out.Kernels, func(a, b KernelProfile) int { return cmp.Compare(b.MS, a.MS) })
	return out, nil
}

// mostAttempts limits the attempts to count a method's rounds when the device is lost.
const mostAttempts = 3

// profileRounds counts the rounds of a method, and repeats that if the device was lost: the text survives a loss,
// the counters do not.
func profileRounds(ctx context.Context, s *foretoken.Session, m Method, prompt string) (*RoundProfile, error) {
	for range mostAttempts {
		losses := s.Losses()
		if out, err := countRounds(ctx, s, m, prompt); err != nil || s.Losses() == losses {
			return out, err
		}
	}
	return nil, fmt.Errorf("foretoken: profile: method %s: the device was lost each of the %d times that its rounds "+
		"were counted: %w", m.Name, mostAttempts, webgpu.ErrDeviceLost)
}

// countRounds counts the rounds of a method after an untimed run, which compiles and measures what the first use needs.
func countRounds(ctx context.Context, s *foretoken.Session, m Method, prompt string) (*RoundProfile, error) {
	request := m.Request
	request.NoReuse = true
	if _, err := s.Generate(ctx, prompt, request, nil); err != nil {
		return nil, fmt.Errorf("foretoken: profile: method %s: %w", m.Name, err)
	}
	out := &RoundProfile{Method: m.Name}
	var before, after webgpu.Counters
	var heap, heapAfter runtime.MemStats
	var draft, verify, readback, host time.Duration
	tokens := 0
	result, err := s.Generate(ctx, prompt, request, func(e *foretoken.Event) error {
		if e.Round.Tree == nil { // the closing event of the text
			return nil
		}
		if e.Round.Round == 1 {
			before = s.Device().Counters()
			runtime.ReadMemStats(&heap)
			return nil
		}
		out.Rounds++
		tokens += len(e.Tokens)
		draft, verify, readback, host = draft+e.Round.Draft, verify+e.Round.Verify, readback+e.Round.Readback,
			host+e.Round.Host
		after = countersSince(s.Device(), before)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("foretoken: profile: method %s: %w", m.Name, err)
	}
	if result.Finish == spec.FinishAborted {
		return nil, context.Canceled
	}
	if out.Rounds == 0 {
		return nil, fmt.Errorf(
			"foretoken: profile: method %s ended its text in one round; take another prompt or more tokens", m.Name)
	}
	runtime.ReadMemStats(&heapAfter)
	n := float64(out.Rounds)
	per := func(d time.Duration) float64 { return milliseconds(d) / n }
	out.Tokens, out.Traffic = float64(tokens)/n, traffic(after, out.Rounds)
	out.DraftMS, out.VerifyMS, out.ReadbackMS, out.HostMS = per(draft), per(verify), per(readback), per(host)
	out.MS = out.DraftMS + out.VerifyMS + out.HostMS
	out.CPUMS = out.MS - per(after.ReadWait)
	out.Allocs, out.AllocBytes = float64(heapAfter.Mallocs-heap.Mallocs)/n,
		float64(heapAfter.TotalAlloc-heap.TotalAlloc)/n
	return out, nil
}
