package tune

import (
	"slices"
	"time"

	"foretoken/webgpu"
)

// WarmUp runs a program until it has got no faster for some time, at most twice that, and waits for each submit by
// reading a region. A GPU that was idle raises its clock under load: an H200 kept a fifth of it for half a second.
func WarmUp(dev webgpu.Device, p webgpu.Program, read webgpu.Region, settled time.Duration) error {
	begin, best, faster := time.Now(), time.Duration(1<<62), time.Now()
	for repeat := 1; time.Since(faster) < settled && time.Since(begin) < 2*settled; {
		from := time.Now()
		if err := dev.Run(slices.Repeat([]webgpu.Program{p}, repeat), read); err != nil {
			return err
		}
		took := time.Since(from)
		if took > settled/4 { // too slow to be a matter of clocks
			return nil
		}
		if each := took / time.Duration(repeat); float64(each) < 0.95*float64(best) {
			best, faster = each, time.Now()
		}
		if took < time.Millisecond {
			repeat = min(2*repeat, maxRepeats)
		}
	}
	return nil
}
