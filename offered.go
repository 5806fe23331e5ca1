package foretoken

import (
	"context"
	"fmt"

	"foretoken/models/eagle3"
	"foretoken/models/gguf"
	"foretoken/spec/goodput"
	"foretoken/webgpu"
)

// Whether auto gains by an offered head (Options.OfferedHead), by the costs of passes and by what drafts yielded.
// Without the head both are estimates: if they promise a gain, the next session loads the head and times its passes.
const (
	headPromises = "promises a gain"
	headDoesNot  = "promises no gain"
	headPays     = "pays"
	headCosts    = "does not pay"
	headMissing  = "could not be loaded"
)

// leastGain is the gain from which on an offered head is loaded. A smaller one would be lost in the choice between more
// drafts: the report drafters has auto with both no faster than with the better one.
const leastGain = 1.02

// Offer is an EAGLE-3 head that is loaded only where auto gains by it.
type Offer struct {
	// Name tells the head from others of the same target.
	Name string
	// Open opens the head and its config.json; nil: none is offered.
	Open func(context.Context) (head, config gguf.Source, err error)
}

// headChoiceKey returns the key of that choice among the stored costs.
func headChoiceKey(p *modelFiles, o *Options) string {
	target := p.sources.target
	key := "EAGLE-3 head " + o.OfferedHead.Name + fmt.Sprintf(" of %s %d", target.Name(), target.Size())
	if draft := p.sources.draft; draft != nil {
		key += fmt.Sprintf(" + %s %d", draft.Name(), draft.Size())
	}
	return key
}

// loads reports whether a session loads the offered head, by what an earlier one stored.
func loads(stored string) bool { return stored == headPromises || stored == headPays }

// takeOffered adds the offered head to the files and the options if an earlier session expects it to pay, it can be
// read, and it fits into the memory.
func (p *modelFiles) takeOffered(ctx context.Context, key string, o *Options, limits webgpu.Limits) {
	if o.OfferedHead.Open == nil || !loads(o.Tuning[tuningCosts][key]) {
		return
	}
	with, files := *o, *p
	var err error
	if with.EAGLE3, with.EAGLE3Config, err = o.OfferedHead.Open(ctx); err != nil {
		return
	}
	if files.head, err = eagle3.Open(with.EAGLE3, with.EAGLE3Config); err != nil {
		return
	}
	if _, err = files.memory(with, limits); err == nil {
		*o, *p = with, files
	}
}

// headChoice returns whether auto gains by the offered head; "" where none is offered or nothing is known yet.
func (s *Session) headChoice() string {
	if s.options.OfferedHead.Open == nil {
		return ""
	}
	known := s.stored[s.headKey]
	switch r := DefaultRequest(); {
	case s.head == nil && loads(known):
		return headMissing
	case s.head != nil && !s.timed && known == headPromises:
		return "" // until its passes are timed
	case !s.timed || !s.measuredFor(s.costs, r.Config()) || known == headCosts:
		return known
	}
	costs, gains, not := *s.costs, headPays, headCosts
	if s.head == nil {
		r := rates(s.dev.Info())
		costs.Expect(goodput.EAGLE3, r, work(s.target.HeadWork()), work(s.target.Work()))
		gains, not = headPromises, headDoesNot
	}
	if gain := costs.Gain(goodput.EAGLE3); gain >= leastGain || known == headPays && gain >= 1 {
		return gains
	}
	return not
}
