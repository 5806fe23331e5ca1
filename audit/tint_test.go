//go:build cgo && !js

package audit

import "testing"

// TestWithoutBufferClamps keeps what is no clamp to the length of a buffer.
func TestWithoutBufferClamps(t *testing.T) {
	const text = "%5 = OpArrayLength %uint %1 0\n%6 = OpISub %uint %5 %uint_1\n%7 = OpISub %uint %4 %uint_1\n"
	got := withoutBufferClamps(text + "%8 = OpExtInst %uint %2 UMin %3 %6\n%9 = OpExtInst %uint %2 UMin %3 %7\n")
	if want := text + "%8 = OpCopyObject %uint %3\n%9 = OpExtInst %uint %2 UMin %3 %7\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
