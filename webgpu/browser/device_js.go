package browser

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hack-pad/safejs"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
)

var (
	_ webgpu.Device             = (*Device)(nil)
	_ webgpu.BatchCompiler      = (*Device)(nil)
	_ webgpu.BackgroundCompiler = (*Device)(nil)
)

// smallBuffer is the size in bytes up to which a buffer is made without waiting for the browser to
// say that it was: its limits are checked here, so it can only lack memory, which the next call
// reports. A model has a hundred of them, and each wait is a way to the GPU process and back.
const smallBuffer = 8 << 20

const (
	flushAt = 4 << 20  // bytes of writes that may wait for the next Run
	drainAt = 32 << 20 // bytes flushed before the device must have caught up
)

// id numbers an object on the JavaScript side.
type id uint32

type (
	buffer  = registry.Buffer[id]
	program = registry.Program[id, id, id]
)

// write is a range of a buffer to be filled from Device.out.
type write struct{ buffer, offset, size, start int }

// Device is a WebGPU device of the browser. webgpu.Device documents its methods.
type Device struct {
	bridge *bridge
	info   webgpu.Info

	mu       sync.Mutex // held by every call but Destroy's first step, Lost and Info
	reg      *registry.Registry[id, id, id]
	lastID   id
	counters webgpu.Counters
	timer    *time.Timer // of runs that take too long
	ticking  bool        // the timer will fire

	compiling map[string]*compilation // by key: begun by Compile, and not yet asked for
	cores     int                     // of the machine
	// when a run last ended, in nanoseconds of Unix time; later than any while one is waited for
	used atomic.Int64

	out         []byte // payload of the writes that wait, then the commands
	writes      []write
	flushed     int // bytes since the last drain
	run         int // numbers runs, to recognise a late answer
	stagingMade int
	in          []byte // what came back

	watch func([]webgpu.Program) // receives the programs of every run; may be nil
}

// Info describes the adapter.
func (d *Device) Info() webgpu.Info { return d.info }

// Lost reports why the device is lost, or nil.
func (d *Device) Lost() error {
	select {
	case <-d.bridge.lost:
		return fmt.Errorf("browser: %w", d.bridge.why)
	default:
		return nil
	}
}

// enter takes the lock, or fails on a lost device, or passes on an error that
// the browser reported after the call that caused it had returned.
func (d *Device) enter(what, label string) error {
	d.mu.Lock()
	err := d.Lost()
	if err == nil {
		if err = d.bridge.takeReported(); err != nil {
			err = fmt.Errorf("browser: reported late, before this call: %w", err)
		}
	}
	if err != nil {
		d.mu.Unlock()
		return fmt.Errorf("%s %s: %w", what, label, err)
	}
	return nil
}

func (d *Device) newID() id {
	d.lastID++
	return d.lastID
}

// NewBuffer makes a zeroed buffer.
func (d *Device) NewBuffer(label string, size int, usage webgpu.Usage) (webgpu.Buffer, error) {
	if err := d.enter("new buffer", label); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	size, err := d.reg.CheckBuffer(label, size, usage)
	if err != nil {
		return 0, err
	}
	n := d.newID()
	if size <= smallBuffer {
		_, err = d.bridge.replay.Call("newSmallBuffer", int(n), label, size, usage == webgpu.Uniform)
	} else {
		_, err = d.bridge.request("newBuffer", int(n), label, size, usage == webgpu.Uniform)
	}
	if err != nil {
		return 0, fmt.Errorf("browser: buffer %s of %d bytes: %w", label, size, err)
	}
	d.counters.Buffers++
	return d.reg.AddBuffer(label, size, usage, n).Handle, nil
}

// FreeBuffer gives a buffer back.
func (d *Device) FreeBuffer(h webgpu.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Lost() != nil {
		return // everything is freed with the device
	}
	b := d.reg.FreeBuffer(h)
	if b == nil {
		return
	}
	kept := d.writes[:0]
	for _, w := range d.writes {
		if w.buffer != int(b.Data) {
			kept = append(kept, w)
		}
	}
	d.writes = kept
	_, _ = d.bridge.replay.Call("freeBuffer", int(b.Data))
}

// NewProgram records dispatches.
func (d *Device) NewProgram(label string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	if err := d.enter("new program", label); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	steps, err := d.reg.CheckProgram(label, dispatches)
	if err != nil {
		return 0, err
	}
	var words []byte
	for _, s := range steps {
		words = appendWords(words, int(s.Kernel.Data), s.Groups[0], s.Groups[1], s.Groups[2], len(s.Bindings))
		for _, b := range s.Bindings {
			words = appendWords(words, int(b.Buffer.Data), b.Offset, b.Size)
		}
	}
	n := d.newID()
	bytes, err := byteArray(words)
	if err == nil {
		_, err = d.bridge.request("newProgram", int(n), label, bytes)
	}
	if err != nil {
		return 0, fmt.Errorf("browser: program %s: %w", label, err)
	}
	d.counters.Programs++
	return d.reg.AddProgram(label, steps, n).Handle, nil
}

// byteArray copies bytes into a new Uint8Array.
func byteArray(bytes []byte) (safejs.Value, error) {
	class, err := safejs.Global().Get("Uint8Array")
	if err != nil {
		return safejs.Value{}, err
	}
	array, err := class.New(len(bytes))
	if err != nil {
		return safejs.Value{}, err
	}
	_, err = safejs.CopyBytesToJS(array, bytes)
	return array, err
}

func appendWords(b []byte, words ...int) []byte {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, uint32(w))
	}
	return b
}

// FreeProgram gives a program's bind groups back.
func (d *Device) FreeProgram(h webgpu.Program) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Lost() != nil {
		return
	}
	if p := d.reg.FreeProgram(h); p != nil {
		_, _ = d.bridge.replay.Call("freeProgram", int(p.Data))
	}
}

// Write queues bytes for the next Run.
func (d *Device) Write(h webgpu.Buffer, offset int, data []byte) error {
	if err := d.enter("write", ""); err != nil {
		return err
	}
	defer d.mu.Unlock()
	b, err := d.reg.CheckWrite(h, offset, len(data))
	if err != nil {
		return err
	}
	d.counters.BytesWritten += int64(len(data))
	for len(data) > 0 {
		n := min(len(data), flushAt)
		d.queue(int(b.Data), offset, data[:n])
		data, offset = data[n:], offset+n
		if len(d.out) >= flushAt {
			if err := d.flush(); err != nil {
				return fmt.Errorf("browser: write to buffer %s: %w", b.Label, err)
			}
		}
	}
	return nil
}

// queue copies data. A write that continues the one before becomes part of it.
func (d *Device) queue(buffer, offset int, data []byte) {
	start := len(d.out)
	d.out = append(d.out, data...)
	if n := len(d.writes); n > 0 {
		last := &d.writes[n-1]
		if last.buffer == buffer && last.offset+last.size == offset && last.start+last.size == start {
			last.size += len(data)
			return
		}
	}
	d.writes = append(d.writes, write{buffer, offset, len(data), start})
}

// flush hands the queued writes over without submitting, and now and then
// waits for the device, so that loading a model does not queue a copy of it.
func (d *Device) flush() error {
	d.flushed += len(d.out)
	if err := d.hand(nil, nil, nil, false); err != nil {
		return err
	}
	if d.flushed < drainAt {
		return nil
	}
	d.flushed = 0
	_, err := d.bridge.request("drain")
	return err
}

// hand appends the commands to the payload and has JavaScript do them. Reads are from the buffers in from.
func (d *Device) hand(programs []*program, from []*buffer, reads []webgpu.Region, submitting bool) error {
	at := len(d.out)
	d.out = appendWords(d.out, len(d.writes), len(programs), len(reads))
	for _, w := range d.writes {
		d.out = appendWords(d.out, w.buffer, w.offset, w.size, w.start)
	}
	for _, p := range programs {
		d.out = appendWords(d.out, int(p.Data))
	}
	for i, b := range from {
		d.out = appendWords(d.out, int(b.Data), reads[i].Offset, len(reads[i].Dst))
	}
	err := d.grow(len(d.out))
	status := 0
	if err == nil {
		status, err = d.bridge.hot.hand(d.out, at, submitting, d.run)
	}
	d.out, d.writes = d.out[:0], d.writes[:0]
	if err == nil && status != 0 {
		err = d.bridge.fault()
	}
	return err
}

// grow makes room for n bytes on the JavaScript side.
func (d *Device) grow(n int) error {
	if n <= d.bridge.hot.size {
		return nil
	}
	inbox, err := d.bridge.replay.Call("grow", n)
	if err != nil {
		return err
	}
	return d.bridge.hot.setInbox(inbox)
}

// Run replays programs in one submit.
func (d *Device) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	if err := d.enter("run", ""); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if d.watch != nil {
		d.watch(programs)
	}
	run, from, total, err := d.reg.CheckRun(programs, reads)
	if err != nil {
		return err
	}
	d.run++
	d.used.Store(math.MaxInt64)
	defer func() { d.used.Store(time.Now().UnixNano()) }()
	if err := d.hand(run, from, reads, true); err != nil {
		return fmt.Errorf("browser: run %s: %w", registry.Labels(run), err)
	}
	d.counters.Submits++
	d.flushed = 0
	if total == 0 {
		return nil
	}
	start := time.Now()
	err = d.await(total)
	d.counters.ReadWait += time.Since(start)
	if err == nil {
		err = d.bridge.takeReported()
	}
	if err != nil {
		return fmt.Errorf("browser: run %s: %w", registry.Labels(run), err)
	}
	d.counters.Reads++
	at := 0
	for _, g := range reads {
		at += copy(g.Dst, d.in[at:])
		d.counters.BytesRead += int64(len(g.Dst))
	}
	return nil
}

// await waits for the results of the run just handed over, and copies them in.
func (d *Device) await(total int) error {
	// The timer runs on from run to run: setting it costs two calls into JavaScript.
	b, start := d.bridge, time.Now()
	if !d.ticking {
		d.timer.Reset(b.timeout)
		d.ticking = true
	}
	for {
		select {
		case f := <-b.done:
			if f.run != d.run {
				continue // of a run that was given up
			}
			if f.status != 0 {
				return b.fault()
			}
			if made := f.stagingMade; made != d.stagingMade {
				outbox, err := b.replay.Get("outbox")
				if err != nil {
					return err
				}
				b.hot.setOutbox(outbox)
				d.counters.Buffers += made - d.stagingMade
				d.stagingMade = made
			}
			if cap(d.in) < total {
				d.in = make([]byte, total)
			}
			d.in = d.in[:total]
			return b.hot.take(d.in)
		case <-b.lost:
			return b.why
		case <-d.timer.C:
			if left := b.timeout - time.Since(start); left > 0 {
				d.timer.Reset(left)
				continue
			}
			d.ticking = false
			return fmt.Errorf("%w: waited %v", webgpu.ErrTimeout, b.timeout)
		}
	}
}

// Counters counts since Open. Growth of the staging buffer counts as a creation.
func (d *Device) Counters() webgpu.Counters {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counters
}

// Destroy loses the device and frees all it holds.
func (d *Device) Destroy() {
	d.bridge.lose(fmt.Errorf("%w: destroyed", webgpu.ErrDeviceLost))
	d.mu.Lock() // a call in progress sees the loss and returns
	defer d.mu.Unlock()
	if d.reg == nil {
		return
	}
	d.reg = nil
	_, _ = d.bridge.replay.Call("destroy")
	d.bridge.release()
}
