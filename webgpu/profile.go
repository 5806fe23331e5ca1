package webgpu

import "time"

// Profiler is implemented by devices that can time the dispatches of a program. A Run without a watcher costs one
// test of a pointer.
type Profiler interface {
	// Watch has f called with the programs of every later Run, before it begins; nil ends it. The
	// slice is valid during the call, and f must not call the device.
	Watch(f func(programs []Program))
	// Profile times each dispatch of a program alone, repeated until it takes long enough for the clock. It leaves
	// the contents of the program's bindings undefined; a Run with valid inputs computes them again.
	Profile(p Program) (Profile, error)
}

// The clocks of a Profile.
const (
	ClockTimestamps = "timestamps" // the device's own, around a pass of nothing but the dispatch
	// the host's, around a submit that repeats the dispatch, less the time of an empty submit
	ClockReplays = "replays"
	ClockHost    = "host" // the host runs the dispatch itself
)

// Profile holds the times of a program's dispatches, in the program's order.
type Profile struct {
	Program    string // its label
	Clock      string
	Dispatches []DispatchTime
}

// DispatchTime is one dispatch of a program.
type DispatchTime struct {
	Kernel string // the name of its source
	Key    string
	Groups [3]int
	Time   time.Duration
	Times  int // how often it was repeated for that
}
