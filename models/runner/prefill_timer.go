package runner

import "time"

const (
	// maxQueued bounds the prefill passes in flight. Queued passes cannot be cancelled when a request is aborted,
	// and a busy device must not look like one that hangs.
	maxQueued = 8
	// maxWait bounds the expected duration of a wait for several passes. It is far below the time after which a
	// device counts as lost, because a machine may become busier, and far above the cost of a wait.
	maxWait = time.Second
	// evenLength is a context length at which attention takes at most as long as the rest of a pass. A pass after n
	// positions then takes at most (n+evenLength)/(m+evenLength) times as long as one after m.
	evenLength = 256
)

// prefillTimer measures the speed of prefill passes and decides how many of them to queue before waiting.
type prefillTimer struct {
	now    func() time.Time // nil: time.Now
	perRow time.Duration    // time of one row; 0 before the first wait
	length int              // length of the sequence before the passes that perRow comes from

	begun time.Time // start of the current wait
	from  int       // length of the sequence at that time
}

func (p *prefillTimer) time() time.Time {
	if p.now != nil {
		return p.now()
	}
	return time.Now()
}

// begin starts timing passes of so many rows after a sequence of the given length and returns how many to queue
// before waiting. The first pass is waited for alone.
func (p *prefillTimer) begin(length, rows int) int {
	p.begun, p.from = p.time(), length
	if p.perRow == 0 {
		return 1
	}
	pass := float64(p.perRow) * float64(rows) * max(1, float64(length+evenLength)/float64(p.length+evenLength))
	return int(min(max(float64(maxWait)/pass, 1), maxQueued))
}

// end ends a wait. Rows of partial passes take longer each, so such a wait counts only until a full one has been
// timed.
func (p *prefillTimer) end(length int, full bool) {
	if full || p.perRow == 0 {
		p.perRow, p.length = max(p.time().Sub(p.begun)/time.Duration(length-p.from), 1), p.from
	}
}
