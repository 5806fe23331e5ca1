package registry

import "time"

// Software adapters compile a kernel at its first run, and a model's pass has dozens. With a cold cache and little
// processor time that takes longer than any wait for hardware.
const (
	hardwareTimeout = 30 * time.Second
	softwareTimeout = 5 * time.Minute
)

// Timeout returns how long a call waits for a device that was opened to wait for `asked`; 0 leaves it to the adapter.
func Timeout(asked time.Duration, software bool) time.Duration {
	switch {
	case asked > 0:
		return asked
	case software:
		return softwareTimeout
	}
	return hardwareTimeout
}
