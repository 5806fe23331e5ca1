package bench

import (
	"fmt"

	"foretoken/models/graph"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/stream"
)

// MemorySpeed is how fast the threads of the cpu device read memory that no cache holds, in GB/s, and how fast the
// target's pass over one row reads its weights.
type MemorySpeed struct {
	Bytes   int     `json:"bytes"`    // that the test reads
	One     float64 `json:"one_gb_s"` // by one thread
	All     float64 `json:"all_gb_s"` // by all threads
	Weights int64   `json:"weights"`  // bytes that the pass reads
	Pass    float64 `json:"pass_gb_s"`
	Share   float64 `json:"share"`           // of All that the pass reaches; above 1 where caches hold the weights
	Error   string  `json:"error,omitempty"` // why it did not run
}

// streamed are the rows and words a row of the test: larger together than the caches of most processors. In one row it
// runs in one thread.
const streamed, streamedCols = 1 << 10, 1 << 16

// timeMemory times the kernel of package stream.
func timeMemory(dev webgpu.Device, repeat int) *MemorySpeed {
	const words = streamed * streamedCols
	speed := &MemorySpeed{Bytes: 4 * words}
	// Written, because a system gives pages that were never written the same memory.
	t := &trial{inputs: []input{{noise(7, 1<<18), words}}, outputs: []int{streamed}}
	p, err := t.place(dev)
	if err != nil {
		speed.Error = err.Error()
		return speed
	}
	defer p.free()
	gbs := func(rows int) (rate float64) {
		var ms float64
		if err == nil {
			ms, err = p.time(func(r *kernels.Recorder, in, out []kernels.View) {
				stream.Record(r, in[0], out[0], rows, words/rows)
			}, repeat)
			rate = 4 * words / ms / 1e6
		}
		return rate
	}
	speed.One, speed.All = gbs(1), gbs(streamed)
	if err != nil {
		speed.Error = err.Error()
	}
	return speed
}

// compare sets what the pass over one row reaches, which takes ms milliseconds.
func (s *MemorySpeed) compare(ms float64) {
	s.Pass = float64(s.Weights) / ms / 1e6
	if s.All > 0 {
		s.Share = s.Pass / s.All
	}
}

// line describes the speed for people.
func (s *MemorySpeed) line(threads int) string {
	if s.Error != "" {
		return "memory:" + because(s.Error)
	}
	return fmt.Sprintf("memory: %.1f GB/s by one thread, %.1f GB/s by all %d; "+
		"T(1) reads %s of weights at %.1f GB/s, %.0f %% of that", s.One, s.All, threads, graph.Size(s.Weights), s.Pass,
		100*s.Share)
}
