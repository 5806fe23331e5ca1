//go:build !js

package fit

import (
	"context"
	"testing"

	"foretoken"
	"foretoken/models/demo"
	"foretoken/webgpu/kernels/kerneltest"
)

// openDemo opens the built-in pair with its head and its calibrations on the cpu device.
func openDemo(t testing.TB) *foretoken.Session {
	t.Helper()
	dev := kerneltest.CPU(t)
	var fitted foretoken.Calibrations
	for _, f := range demo.Calibrations() {
		if err := fitted.Parse(f.Name, f.Data); err != nil {
			t.Fatal(err)
		}
	}
	head, config := demo.Head()
	s, err := foretoken.Open(context.Background(), dev, demo.Target(), demo.Draft(),
		foretoken.Options{Calibrations: &fitted, EAGLE3: head, EAGLE3Config: config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
