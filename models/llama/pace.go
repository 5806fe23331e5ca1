package llama

import "time"

const (
	// awaited is the most passes of a prefill that are under way before it waits for them: what is queued cannot be called
	// back when a request is aborted, and a device that has much to do must not look like one that hangs.
	awaited = 8
	// patience is how long a wait for more than one pass may be expected to take: far below the time after which a
	// device counts as lost, since a machine may become busier than it was, and long beside what a wait costs.
	patience = time.Second
	// even is a length whose attention takes as long as all else in a pass, or less: a pass after n positions takes at most
	// (n+even)/(m+even) as long as one after m.
	even = 256
)

// pace is how fast the passes of a prefill were when they were last waited for, and so how many of them to wait for
// at once.
type pace struct {
	now    func() time.Time // nil: time.Now
	row    time.Duration    // what a row took; 0 while nothing was waited for
	length int              // the sequence's, before the passes that row is of

	begun time.Time // the wait under way
	from  int       // the length then
}

func (p *pace) time() time.Time {
	if p.now != nil {
		return p.now()
	}
	return time.Now()
}

// begin begins to count the time of passes of so many rows after a sequence of a length, and says how many of them to
// wait for. The first is waited for alone.
func (p *pace) begin(length, rows int) int {
	p.begun, p.from = p.time(), length
	if p.row == 0 {
		return 1
	}
	pass := float64(p.row) * float64(rows) * max(1, float64(length+even)/float64(p.length+even))
	return int(min(max(float64(patience)/pass, 1), awaited))
}

// end ends a wait. Rows of passes that are not full take longer each: they tell of others only while nothing else does.
func (p *pace) end(length int, full bool) {
	if full || p.row == 0 {
		p.row, p.length = max(p.time().Sub(p.begun)/time.Duration(length-p.from), 1), p.from
	}
}
