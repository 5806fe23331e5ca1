package graph

import (
	"fmt"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Resources are the buffers and programs that one model has on a device.
type Resources struct {
	Dev  webgpu.Device
	File string // of the model, for errors

	preparing func(step string)
	smaller   string // how to make buffers smaller, for errors
	buffers   []webgpu.Buffer
	built     []*kernels.Built
	bytes     int64
	waited    time.Duration
	unsynced  bool // nothing was read back since the last run
}

// Buffer makes a device buffer of so many bytes that Close frees.
func (s *Resources) Buffer(label string, size int) (kernels.View, error) {
	if most := s.Dev.Info().Limits.MaxBufferSize; size > most {
		return kernels.View{}, s.tooLarge(label, size, most)
	}
	b, err := s.Dev.NewBuffer(label, size, webgpu.Storage)
	if err != nil {
		return kernels.View{}, fmt.Errorf("graph: %s: %s of %d bytes: %w", s.File, label, size, err)
	}
	s.buffers = append(s.buffers, b)
	s.bytes += int64(size)
	return kernels.View{Buffer: b, Size: size}, nil
}

// Binding makes a buffer that kernels bind in full.
func (s *Resources) Binding(label string, size int) (kernels.View, error) {
	if most := s.maxBinding(); size > most {
		return kernels.View{}, s.tooLarge(label, size, most)
	}
	return s.Buffer(label, size)
}

// maxBinding returns the largest buffer that fits in one binding.
func (s *Resources) maxBinding() int {
	l := s.Dev.Info().Limits
	return min(l.MaxBindingSize, l.MaxBufferSize)
}

// tooLarge returns the error for a buffer that exceeds a limit.
func (s *Resources) tooLarge(label string, size, most int) error {
	return fmt.Errorf("graph: %s: %s would be a buffer of %s (%d bytes); this device takes %s (%d bytes) at most: %s",
		s.File, label, Size(int64(size)), size, Size(int64(most)), most, s.smaller)
}

// Bytes returns the size of all buffers.
func (s *Resources) Bytes() int64 { return s.bytes }

// Preparing reports a step of compiling or timing kernels.
func (s *Resources) Preparing(step string) {
	if s.preparing != nil {
		s.preparing(step)
	}
}

// Run submits programs and waits for the readback of the regions, if there are any.
func (s *Resources) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	begin := time.Now()
	err := s.Dev.Run(programs, reads...)
	if s.unsynced = len(reads) == 0; !s.unsynced {
		s.waited += time.Since(begin)
	}
	return err
}

// ReadbackTime returns the total time that runs have waited for the device.
func (s *Resources) ReadbackTime() time.Duration { return s.waited }

// Close frees the buffers and programs.
func (s *Resources) Close() {
	for _, b := range s.built {
		b.Free()
	}
	for _, b := range s.buffers {
		s.Dev.FreeBuffer(b)
	}
	s.built, s.buffers = nil, nil
}
