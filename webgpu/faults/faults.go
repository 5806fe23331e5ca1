// Package faults wraps a device and makes it fail where a test wants: the device is lost, runs out of memory or
// never answers a read.
package faults

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"foretoken/webgpu"
)

// Call is a kind of call that can go wrong.
type Call int

const (
	NewBuffer Call = iota
	NewKernels
	NewProgram
	Write
	Run  // without reads
	Read // Run with reads
)

func (c Call) String() string {
	return [...]string{"new buffer", "new kernels", "new program", "write", "run", "read"}[c]
}

// Fault is a way for a call to fail.
type Fault int

const (
	None     Fault = iota
	Lost           // the device is lost in the middle of it
	NoMemory       // allocation fails
	Hang           // the device does not answer any more, nor any later call
)

// Script decides what goes wrong. It may be shared by several devices, one after the other.
type Script struct {
	// At is asked before each call; n counts calls of all kinds, from 0, and label names the new object or the
	// programs that run. Nil: no call fails.
	At func(n int, c Call, label string) Fault
	// Timeout limits how long a call waits for a device that hangs.
	Timeout time.Duration

	mu    sync.Mutex
	calls int
	live  map[*Device]int // buffers and programs that were not given back, of devices that are not destroyed
}

// Calls returns the number of calls so far.
func (p *Script) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Live returns the number of buffers and programs that exist.
func (p *Script) Live() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, live := range p.live {
		n += live
	}
	return n
}

func (p *Script) ask(c Call, label string) Fault {
	p.mu.Lock()
	n := p.calls
	p.calls++
	p.mu.Unlock()
	if p.At == nil {
		return None
	}
	return p.At(n, c, label)
}

// made counts objects of a device: 1 for a new one, -1 for a freed one.
func (p *Script) made(d *Device, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil {
		p.live = map[*Device]int{}
	}
	if d.Lost() == nil {
		p.live[d] += n
	}
}

// Device is a webgpu.Device. Free it as the one inside.
type Device struct {
	webgpu.Device
	script *Script

	mu     sync.Mutex
	hung   bool
	labels map[webgpu.Program]string
}

var (
	_ webgpu.Device             = (*Device)(nil)
	_ webgpu.BackgroundCompiler = (*Device)(nil)
	_ webgpu.Profiler           = (*Device)(nil)
)

// New has a device go wrong as the script says.
func New(inside webgpu.Device, p *Script) *Device {
	return &Device{Device: inside, script: p, labels: map[webgpu.Program]string{}}
}

// enter injects the fault of a call.
func (d *Device) enter(c Call, label string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fault := d.script.ask(c, label)
	if err := d.Lost(); err != nil {
		return fmt.Errorf("faults: %s %s: %w", c, label, err)
	}
	switch fault {
	case Lost:
		d.Destroy()
		return fmt.Errorf("faults: %s %s: %w", c, label, d.Lost())
	case NoMemory:
		return fmt.Errorf("faults: %s %s: %w", c, label, webgpu.ErrNoMemory)
	case Hang:
		d.hung = true
	}
	if d.hung {
		time.Sleep(d.script.Timeout)
		return fmt.Errorf("faults: %s %s: %w: waited %v", c, label, webgpu.ErrTimeout, d.script.Timeout)
	}
	return nil
}

// NewBuffer makes a buffer.
func (d *Device) NewBuffer(label string, size int, usage webgpu.Usage) (webgpu.Buffer, error) {
	if err := d.enter(NewBuffer, fmt.Sprintf("%s of %d bytes", label, size)); err != nil {
		return 0, err
	}
	b, err := d.Device.NewBuffer(label, size, usage)
	if err == nil {
		d.script.made(d, 1)
	}
	return b, err
}

// FreeBuffer gives a buffer back.
func (d *Device) FreeBuffer(b webgpu.Buffer) {
	d.script.made(d, -1)
	d.Device.FreeBuffer(b)
}

// NewKernels compiles kernels.
func (d *Device) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	if err := d.enter(NewKernels, fmt.Sprintf("(%d)", len(sources))); err != nil {
		return nil, err
	}
	return d.Device.NewKernels(sources)
}

// Compile is the other device's: what goes wrong with it shows at NewKernels.
func (d *Device) Compile(sources []*webgpu.KernelSource) <-chan struct{} {
	return webgpu.Compile(d.Device, sources)
}

// NewProgram records dispatches.
func (d *Device) NewProgram(label string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	if err := d.enter(NewProgram, label); err != nil {
		return 0, err
	}
	p, err := d.Device.NewProgram(label, dispatches)
	if err == nil {
		d.script.made(d, 1)
		d.mu.Lock()
		d.labels[p] = label
		d.mu.Unlock()
	}
	return p, err
}

// FreeProgram gives a program back.
func (d *Device) FreeProgram(p webgpu.Program) {
	d.script.made(d, -1)
	d.mu.Lock()
	delete(d.labels, p)
	d.mu.Unlock()
	d.Device.FreeProgram(p)
}

// Write queues bytes.
func (d *Device) Write(b webgpu.Buffer, offset int, data []byte) error {
	if err := d.enter(Write, ""); err != nil {
		return err
	}
	return d.Device.Write(b, offset, data)
}

// Run replays programs.
func (d *Device) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	c := Run
	if len(reads) > 0 {
		c = Read
	}
	d.mu.Lock()
	labels := make([]string, len(programs))
	for i, p := range programs {
		labels[i] = d.labels[p]
	}
	d.mu.Unlock()
	if err := d.enter(c, strings.Join(labels, ", ")); err != nil {
		return err
	}
	return d.Device.Run(programs, reads...)
}

// Watch is the other device's, if it can be profiled.
func (d *Device) Watch(f func(programs []webgpu.Program)) {
	if inside, ok := d.Device.(webgpu.Profiler); ok {
		inside.Watch(f)
	}
}

// Profile calls the wrapped device. It counts as a read, of "profile" and the program's label.
func (d *Device) Profile(p webgpu.Program) (webgpu.Profile, error) {
	inside, ok := d.Device.(webgpu.Profiler)
	if !ok {
		return webgpu.Profile{}, fmt.Errorf("faults: the device cannot be profiled")
	}
	d.mu.Lock()
	label := d.labels[p]
	d.mu.Unlock()
	if err := d.enter(Read, "profile "+label); err != nil {
		return webgpu.Profile{}, err
	}
	return inside.Profile(p)
}

// Destroy loses the device and frees all it holds.
func (d *Device) Destroy() {
	d.Device.Destroy()
	d.script.mu.Lock()
	defer d.script.mu.Unlock()
	delete(d.script.live, d)
}
