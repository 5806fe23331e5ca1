package browser

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hack-pad/safejs"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
)

// Options say how patient to be.
type Options struct {
	ReadTimeout time.Duration // how long a call waits for the device; 0 is 30 s, and 5 minutes for a software adapter
}

const openTimeout = 60 * time.Second

// Open opens the adapter that the browser prefers, with the features shader-f16, subgroups and timestamp-query
// where it has them and all the limits it offers. Where there is no WebGPU it returns ErrUnavailable and the reason
// in words that can be shown to a person.
func Open(ctx context.Context, o Options) (*Device, error) {
	b := newBridge()
	outcome, err := b.open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", webgpu.ErrUnavailable, err)
	}
	// Another page's work may be in the way, and a browser may ask its user.
	timer := time.NewTimer(openTimeout)
	defer timer.Stop()
	var got opened
	select {
	case got = <-outcome:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("browser: %w: the browser did not open a device in %v", webgpu.ErrUnavailable, openTimeout)
	}
	if err != nil {
		go b.abandon(outcome)
		return nil, err
	}
	if got.err != nil {
		b.release()
		return nil, got.err
	}
	b.replay = got.replay
	d, err := newDevice(b, o)
	if err != nil {
		_, _ = b.replay.Call("destroy")
		b.release()
		return nil, fmt.Errorf("browser: %w", err)
	}
	return d, nil
}

// abandon destroys a device that arrives after its caller gave up.
func (b *bridge) abandon(outcome <-chan opened) {
	if o := <-outcome; o.err == nil {
		_, _ = o.replay.Call("destroy")
	}
	b.release()
}

func newDevice(b *bridge, o Options) (*Device, error) {
	info, err := readInfo(b.replay)
	if err != nil {
		return nil, err
	}
	b.timeout = registry.Timeout(o.ReadTimeout, info.Software)
	submit, err := b.replay.Get("submit")
	if err != nil {
		return nil, err
	}
	b.hot.bind(submit)
	d := &Device{bridge: b, info: info, timer: time.NewTimer(time.Hour), compiling: map[string]*compilation{}}
	d.shared = registry.NewDevice("browser", info.Limits, (*backend)(d))
	d.timer.Stop()
	return d, d.grow(1 << 16)
}

// readInfo turns the replay object's description into the contract's.
func readInfo(replay safejs.Value) (webgpu.Info, error) {
	v, err := replay.Call("info")
	if err != nil {
		return webgpu.Info{}, err
	}
	r := reader{v: v}
	vendor, architecture := r.text("vendor"), r.text("architecture")
	device, description := r.text("device"), r.text("description")
	info := webgpu.Info{
		Backend:      "browser",
		Vendor:       vendor,
		Architecture: architecture,
		Driver:       "WebGPU",
		Features:     strings.Fields(r.text("features")),
	}
	for _, name := range []string{description, device, strings.TrimSpace(vendor + " " + architecture),
		"unnamed adapter"} {
		if name != "" {
			info.Adapter = name
			break
		}
	}
	all := strings.ToLower(strings.Join([]string{vendor, architecture, device, description}, " "))
	for _, software := range []string{"swiftshader", "llvmpipe", "lavapipe", "basic render", "warp"} {
		info.Software = info.Software || strings.Contains(all, software)
	}
	info.Software = info.Software || r.truth("fallback")

	l := reader{v: r.get("limits")}
	info.Limits = webgpu.Limits{
		MaxBindingSize:      l.size("maxStorageBufferBindingSize"),
		MaxBufferSize:       l.size("maxBufferSize"),
		MaxStorageBuffers:   l.size("maxStorageBuffersPerShaderStage"),
		MaxWorkgroupStorage: l.size("maxComputeWorkgroupStorageSize"),
		MaxWorkgroupInvocations: min(l.size("maxComputeInvocationsPerWorkgroup"), l.size("maxComputeWorkgroupSizeX"),
			l.size("maxComputeWorkgroupSizeY")),
		MaxWorkgroupsPerDim: l.size("maxComputeWorkgroupsPerDimension"),
	}
	if r.err == nil {
		r.err = l.err
	}
	return info, r.err
}

// reader reads properties and keeps the first error.
type reader struct {
	v   safejs.Value
	err error
}

// keep keeps the first error.
func (r *reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) get(name string) safejs.Value {
	v, err := r.v.Get(name)
	r.keep(err)
	return v
}

func (r *reader) text(name string) string {
	s, err := r.get(name).String()
	r.keep(err)
	return s
}

func (r *reader) truth(name string) bool {
	t, err := r.get(name).Truthy()
	r.keep(err)
	return t
}

// size reads a limit. Sizes stay below 2 GiB, the most that 32-bit shader indices are safe with, and a multiple of 4.
func (r *reader) size(name string) int {
	f, err := r.get(name).Float()
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("limit %s: %w", name, err)
	}
	if f >= 1<<31 {
		return 1<<31 - 4
	}
	return int(f)
}
