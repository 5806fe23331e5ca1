package foretoken

import (
	"context"
	"fmt"

	"foretoken/models/eagle3"
	"foretoken/spec/goodput"
	"foretoken/webgpu"
)

// Whether auto gains by an offered head (Options.OfferedHead), by the costs of passes and by what its drafts yielded.
// Without the head both are estimates: if they promise a gain, the next session loads the head and times its passes,
// which decides for good.
const (
	headPromises = "promises a gain"
	headDoesNot  = "promises no gain"
	headPays     = "pays"
	headCosts    = "does not pay"
)

// leastGain is the gain from which on an offered head is loaded: the choice between more drafts costs about as much.
const leastGain = 1.02

// headKey returns the key of that choice among the stored costs.
func headKey(p *modelFiles) string {
	return fmt.Sprintf("EAGLE-3 head of %s %d", p.sources.target.Name(), p.sources.target.Size())
}

// takeOffered adds the offered head to the files and the options if an earlier session expects it to pay, it can be
// read, and it fits into the memory.
func (p *modelFiles) takeOffered(ctx context.Context, o *Options, limits webgpu.Limits) {
	if known := o.Tuning[tuningCosts][headKey(p)]; o.OfferedHead == nil || known != headPromises && known != headPays {
		return
	}
	with, files := *o, *p
	var err error
	if with.EAGLE3, with.EAGLE3Config, err = o.OfferedHead(ctx); err != nil {
		return
	}
	if files.head, err = eagle3.Open(with.EAGLE3, with.EAGLE3Config); err != nil {
		return
	}
	if _, err = files.memory(with, limits); err == nil {
		*o, *p = with, files
	}
}

// headChoice returns whether auto gains by the offered head; "" where nothing is known yet.
func (s *Session) headChoice() string {
	if s.options.OfferedHead == nil {
		return ""
	}
	known := s.stored[headKey(s.files)]
	if !s.timed || s.head == nil && (known == headPays || known == headCosts) {
		return known
	}
	costs, gains, not := *s.costs, headPays, headCosts
	if s.head == nil {
		costs.Expect(goodput.EAGLE3, rates(s.dev.Info()), work(s.target.Work()), work(s.target.HeadWork()))
		gains, not = headPromises, headDoesNot
	}
	if gain := costs.Gain(goodput.EAGLE3); gain >= leastGain || known == headPays && gain >= 1 {
		return gains
	}
	return not
}
