package warmup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"foretoken/webgpu"
)

// script is work whose kernels take a second each, and the record of what it did.
type script struct {
	did   []string
	fails string // the step that fails
}

func (s *script) step(name string) func() error {
	return func() error {
		s.did = append(s.did, name)
		if name == s.fails {
			return errors.New("failed")
		}
		return nil
	}
}

func (s *script) work(kernels int) Work {
	return Work{
		Device:  compiler{nil, s},
		List:    []func() error{s.step("load"), s.step("list")},
		Sources: func() []*webgpu.KernelSource { return make([]*webgpu.KernelSource, kernels) },
		Record:  []func() error{s.step("record"), s.step("rest")},
	}
}

func (s *script) String() string { return strings.Join(s.did, " ") }

// compiler is the device of a script.
type compiler struct {
	webgpu.Device
	*script
}

func (c compiler) Compile(sources []*webgpu.KernelSource) <-chan struct{} {
	compiled := make(chan struct{})
	c.did = append(c.did, fmt.Sprint(len(sources)))
	time.AfterFunc(time.Duration(len(sources))*time.Second, func() { close(compiled) })
	return compiled
}

func nothing() error { return nil }

// lock is Turn.Lock for tests: a mutex that blocks would stop the test's clock.
func lock(t *Turn) {
	t.waiting.Add(1)
	for !t.TryLock() {
		time.Sleep(time.Millisecond)
	}
	t.waiting.Add(-1)
}

// TestFinishCompilesAllAtOnce completes warmup for a request that waits.
func TestFinishCompilesAllAtOnce(t *testing.T) {
	for _, c := range []struct{ fails, did string }{
		{"", "load list 0 5 record rest"},
		{"load", "load 0 5 record rest"}, // what the dry run did not list compiles when it is recorded
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{fails: c.fails}
			w := New(s.work(5))
			if err := w.Finish(t.Context()); err != nil || s.String() != c.did || !w.Done() {
				t.Errorf("%v: did %q, want %q, %v", c.fails, s, c.did, err)
			}
			if err := w.Finish(t.Context()); err != nil || s.String() != c.did {
				t.Errorf("%v: finished twice: %q, %v", c.fails, s, err)
			}
		})
	}
}

// TestFinishTellsWhatFails lets recording fail, and cancels warmup while kernels compile.
func TestFinishTellsWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fails: "record"}
		w := New(s.work(5))
		if err := w.Finish(t.Context()); err == nil || w.Done() {
			t.Errorf("recording failed: %v, done %t", err, w.Done())
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Finish(cancelled); !errors.Is(err, context.Canceled) || s.String() != "load list 0 5 record" {
			t.Errorf("a cancelled request took a step: %q, %v", s, err)
		}
		s.fails = ""
		if err := w.Finish(t.Context()); err != nil || s.String() != "load list 0 5 record record rest" {
			t.Errorf("after a failure: %q, %v", s, err)
		}
		w = New((&script{}).work(5))
		ctx, end := context.WithTimeout(t.Context(), 2*time.Second)
		defer end()
		if err := w.Finish(ctx); !errors.Is(err, context.DeadlineExceeded) || w.Done() {
			t.Errorf("cancelled while kernels compile: %v, done %t", err, w.Done())
		}
		if err := w.Finish(t.Context()); err != nil || !w.Done() {
			t.Errorf("after a cancelled request: %v", err)
		}
	})
}

// TestNothingToCompile only records.
func TestNothingToCompile(t *testing.T) {
	if w := New(Work{}); !w.Done() {
		t.Error("empty work is not done")
	}
	s := &script{}
	w := New(Work{Record: s.work(0).Record})
	if err := w.Finish(t.Context()); err != nil || s.String() != "record rest" {
		t.Errorf("did %q, %v", s, err)
	}
}

// TestBackgroundGivesWay warms up in the background, while a request comes and goes: it compiles two kernels at a time,
// takes no step while the request has the turn, and ends the timing that a second request waits for.
func TestBackgroundGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, turn := &script{}, &Turn{}
		w := New(s.work(5))
		begin := time.Now()
		var timed atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Background(turn, nothing, func(idle context.Context) error {
				timed.Add(1)
				for range 10 {
					time.Sleep(10 * time.Millisecond)
					if err := idle.Err(); err != nil {
						return fmt.Errorf("pass: %w", err)
					}
				}
				return nil
			})
		}()
		time.Sleep(pause + 2500*time.Millisecond)
		lock(turn) // two kernels are compiled, two compile
		if s.String() != "load list 0 2 2" {
			t.Errorf("while idle: did %q", s)
		}
		time.Sleep(5 * time.Second)
		if s.String() != "load list 0 2 2" {
			t.Errorf("during a request: did %q", s)
		}
		turn.Unlock()
		for waited := false; !waited; {
			time.Sleep(5 * time.Millisecond)
			if timed.Load() > 0 {
				asked := time.Now()
				lock(turn)
				if took := time.Since(asked); took > 10*time.Millisecond {
					t.Errorf("a request waited %v for timing to end", took)
				}
				turn.Unlock()
				waited = true
			}
		}
		<-ended
		if s.String() != "load list 0 2 2 1 record rest" || timed.Load() != 2 || !w.Done() {
			t.Errorf("did %q, timed %d times", s, timed.Load())
		}
		if took := time.Since(begin); took > 12*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestBackgroundEnds ends with an error of the session or of a step, and does not run what comes last.
func TestBackgroundEnds(t *testing.T) {
	for what, c := range map[string]struct {
		may   error
		fails string
		did   string
	}{"closed": {errors.New("closed"), "", ""}, "a step": {nil, "rest", "load list 0 record rest"}} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{fails: c.fails}
			New(s.work(0)).Background(&Turn{}, func() error { return c.may }, func(context.Context) error {
				t.Errorf("%s: went on", what)
				return nil
			})
			if s.String() != c.did {
				t.Errorf("%s: did %q", what, s)
			}
		})
	}
}
