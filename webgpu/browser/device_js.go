package browser

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hack-pad/safejs"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
	"foretoken/webgpu/internal/timing"
)

var (
	_ webgpu.Device             = (*Device)(nil)
	_ webgpu.BackgroundCompiler = (*Device)(nil)
	_ webgpu.Profiler           = (*Device)(nil)
)

// smallBuffer is the size in bytes up to which a buffer is made without waiting for the browser to
// say that it was: its limits are checked here, so it can only lack memory, which the next call
// reports. A model has a hundred of them, and each wait is a way to the GPU process and back.
const smallBuffer = 8 << 20

// drainAt is the number of bytes flushed before the device must have caught up.
const drainAt = 32 << 20

// id numbers an object on the JavaScript side.
type id uint32

type (
	buffer  = registry.Buffer[id]
	program = registry.Program[id, id, id]
	shared  = registry.Device[id, id, id]
)

// Device is a WebGPU device of the browser. webgpu.Device documents its methods.
type Device struct {
	*shared
	bridge *bridge
	info   webgpu.Info

	lastID   id
	timer    *time.Timer // of runs that take too long
	ticking  bool        // the timer will fire
	released atomic.Bool

	compiling map[string]*compilation // by key: begun by Compile, and not yet asked for

	writes      registry.Writes[id] // those that wait; the commands follow their bytes
	flushed     int                 // bytes since the last drain
	run         int                 // numbers runs, to recognise a late answer
	stagingMade int
	in          []byte // what came back
}

// backend implements registry.Backend on a Device.
type backend Device

// Info describes the adapter.
func (d *Device) Info() webgpu.Info { return d.info }

func (d *backend) Lost() error {
	select {
	case <-d.bridge.lost:
		return d.bridge.why
	default:
		return nil
	}
}

func (d *backend) Late() error { return d.bridge.takeReported() }

func (d *Device) newID() id {
	d.lastID++
	return d.lastID
}

func (d *backend) MakeBuffer(label string, size int, usage webgpu.Usage) (id, error) {
	n := (*Device)(d).newID()
	if size <= smallBuffer {
		_, err := d.bridge.replay.Call("newSmallBuffer", int(n), label, size, usage == webgpu.Uniform)
		return n, err
	}
	_, err := d.bridge.request("newBuffer", int(n), label, size, usage == webgpu.Uniform)
	return n, err
}

func (d *backend) DropBuffer(b *buffer) {
	d.writes.Forget(b)
	_, _ = d.bridge.replay.Call("freeBuffer", int(b.Data))
}

func (d *backend) MakeProgram(label string, steps []registry.Step[id, id]) (id, error) {
	var words []byte
	for _, s := range steps {
		words = appendWords(words, int(s.Kernel.Data), s.Groups[0], s.Groups[1], s.Groups[2], len(s.Bindings))
		for _, b := range s.Bindings {
			words = appendWords(words, int(b.Buffer.Data), b.Offset, b.Size)
		}
	}
	n := (*Device)(d).newID()
	bytes, err := byteArray(words)
	if err == nil {
		_, err = d.bridge.request("newProgram", int(n), label, bytes)
	}
	return n, err
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

func (d *backend) DropProgram(p id) { _, _ = d.bridge.replay.Call("freeProgram", int(p)) }

func (d *backend) PutBytes(b *buffer, offset int, data []byte) error {
	return d.writes.Put(b, offset, data, d.flush)
}

// flush hands the queued writes over without submitting, and now and then
// waits for the device, so that loading a model does not queue a copy of it.
func (d *backend) flush() error {
	d.flushed += len(d.writes.Bytes)
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
func (d *backend) hand(programs []*program, from []*buffer, reads []webgpu.Region, submitting bool) error {
	at := len(d.writes.Bytes)
	out := appendWords(d.writes.Bytes, len(d.writes.Writes), len(programs), len(reads))
	for _, w := range d.writes.Writes {
		out = appendWords(out, int(w.Buffer.Data), w.Offset, w.End-w.Start, w.Start)
	}
	for _, p := range programs {
		out = appendWords(out, int(p.Data))
	}
	for i, b := range from {
		out = appendWords(out, int(b.Data), reads[i].Offset, len(reads[i].Dst))
	}
	err := (*Device)(d).grow(len(out))
	status := 0
	if err == nil {
		status, err = d.bridge.hot.hand(out, at, submitting, d.run)
	}
	d.writes.Bytes = out // with the room that the commands took
	d.writes.Reset()
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

func (d *backend) Replay(
	run []*program, from []*buffer, reads []webgpu.Region, total int,
) (done registry.Replayed, err error) {
	d.run++
	if err := d.hand(run, from, reads, true); err != nil {
		return done, err
	}
	d.flushed = 0
	if total == 0 {
		return done, nil
	}
	start, made := time.Now(), d.stagingMade
	if err := d.await(total); err != nil {
		return done, err
	}
	done = registry.Replayed{Wait: time.Since(start), Buffers: d.stagingMade - made}
	at := 0
	for _, g := range reads {
		at += copy(g.Dst, d.in[at:])
	}
	return done, d.Late()
}

// await waits for the results of the run just handed over, and copies them in.
func (d *backend) await(total int) error {
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

// Clock names timestamp queries, and where there are none the duration of submits.
func (d *backend) Clock() (string, time.Duration) {
	if d.info.Has("timestamp-query") {
		return webgpu.ClockTimestamps, timing.Coarse
	}
	return webgpu.ClockReplays, timing.Coarse
}

// Time runs the dispatch in one pass.
func (d *backend) Time(p *program, i, times int) (time.Duration, error) {
	v, err := d.bridge.request("timed", int(p.Data), i, times)
	if err != nil {
		return 0, err
	}
	ms, err := v.Float()
	return time.Duration(ms * float64(time.Millisecond)), err
}

// Destroy loses the device and frees all it holds.
func (d *Device) Destroy() {
	d.bridge.lose(fmt.Errorf("%w: destroyed", webgpu.ErrDeviceLost))
	// A call in progress sees the loss and returns.
	d.Release()
	if d.released.Swap(true) {
		return
	}
	_, _ = d.bridge.replay.Call("destroy")
	d.bridge.release()
}
