//go:build !js

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"foretoken"
	"foretoken/webgpu"
)

// TestLoadingTellsWithoutATerminal prints a line every five seconds where no bar can be drawn, and none for a short
// load.
func TestLoadingTellsWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := loading{c: &console{err: &out}}
		for i := range 130 {
			l.report(foretoken.Progress{Stage: "target", Done: int64(i) * 1e7, Total: 13e8})
			time.Sleep(100 * time.Millisecond)
		}
		l.report(foretoken.Progress{Stage: "kernels", Note: "timing\nq8_0"})
		time.Sleep(quietly)
		l.report(foretoken.Progress{Stage: "kernels", Note: "timing\nq8_0"})
		want := "foretoken: note: loading target: 500 of 1300 MB\n" +
			"foretoken: note: loading target: 1000 of 1300 MB\n" +
			"foretoken: note: loading kernels: timing: q8_0\n"
		if got := out.String(); got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	})
}

// TestTimeoutsNameTheirFlag has the error of a device that does not answer say which flag waits longer.
func TestTimeoutsNameTheirFlag(t *testing.T) {
	late := fmt.Errorf("foretoken: the device was lost 3 times in a row: %w: waited 30s", webgpu.ErrTimeout)
	for args, want := range map[string]bool{"generate": true, "serve": true, "version": false} {
		began := false
		err := inWords(rootCommand(&console{}, &began), []string{args}, late)
		if got := strings.Contains(err.Error(), "--device-timeout"); got != want || !errors.Is(err, webgpu.ErrTimeout) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
