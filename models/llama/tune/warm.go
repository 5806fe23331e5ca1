package tune

import (
	"slices"
	"time"

	"foretoken/webgpu"
)

const (
	// settled is how long a program must have run without getting faster, and warming the most that WarmUp takes.
	settled = 100 * time.Millisecond
	warming = 400 * time.Millisecond
)

// WarmUp runs a program until it gets no faster, and waits for each submit by reading a region. A GPU that was idle
// raises its clock under load: one became four times as fast within half a second.
func WarmUp(dev webgpu.Device, p webgpu.Program, read webgpu.Region) error {
	begin, best, faster := time.Now(), time.Duration(1<<62), time.Now()
	for repeat := 1; time.Since(faster) < settled && time.Since(begin) < warming; {
		from := time.Now()
		if err := dev.Run(slices.Repeat([]webgpu.Program{p}, repeat), read); err != nil {
			return err
		}
		took := time.Since(from)
		if each := took / time.Duration(repeat); float64(each) < 0.95*float64(best) {
			best, faster = each, time.Now()
		}
		if took < time.Millisecond {
			repeat = min(2*repeat, maxRepeats)
		}
	}
	return nil
}
