package simd

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
	"foretoken/webgpu/internal/timing"
)

var (
	_ webgpu.Device   = (*Device)(nil)
	_ webgpu.Profiler = (*Device)(nil)
)

// module is the code of src and the memory that it computes in. Sizes are in bytes.
type module interface {
	// name says what runs the code.
	name() string
	// call calls one of the code's functions and returns its result, 0 for none. A trap is an error.
	call(name string, args ...address) (uint32, error)
	// start starts a thread that calls work(pool, part) until the pool ends. In WebAssembly its stack ends at the given
	// address. working receives nil once the thread works, or an error; failed receives what ended it early.
	start(pool address, part int, stack address, failed func(error)) (working <-chan error, err error)
	// room is where the memory can have buffers.
	room() span
	// grow has the memory reach to an end.
	grow(end int) error
	// put and get copy to and from the memory.
	put(at address, data []byte)
	get(at address, dst []byte)
	// close frees all, after threads have left.
	close()
}

// address locates a byte as the module's code does: by the processor's address, or by an offset in WebAssembly's
// memory.
type address = uint64

type (
	buffer  = registry.Buffer[address]
	program = registry.Program[address, code, recorded]
	shared  = registry.Device[address, code, recorded]
	step    = registry.Step[address, code]
)

// code is a compiled kernel: its number in the module's table, or -1 for one that runs its reference; and where the
// words of its specialisation stand.
type code struct {
	number int
	words  address
}

// recorded is a program in the module's memory: the addresses of its dispatches, which follow them.
type recorded struct {
	at address
	// fallbacks are the dispatches that run their reference.
	fallbacks []int
	pace      *pace
}

// Device runs kernels in a module. webgpu.Device documents its methods.
type Device struct {
	*shared
	life      *life
	module    module
	heap      heap
	kernels   map[string]int // numbers by name
	scratch   address
	scratched int // bytes of scratch of a thread
	fallbacks int // of the present run

	references bool // all kernels run theirs

	pool    address
	threads int
	starts  []<-chan error // of the threads that are starting
	timeout time.Duration
	parts   int // above 0: see Options
	crew    crew
	job     [10]uint32            // the present one: how the pool begins
	args    [1]address            // of the functions that run it: the pool
	failure atomic.Pointer[error] // why no more can run
}

// backend implements registry.Backend on a Device.
type backend Device

// Options configure a device.
type Options struct {
	// Threads compute each dispatch together; 0: one. There are fewer where the page does not let more start: shared
	// memory is for pages that are cross-origin isolated.
	Threads int
	// Timeout is the time after which a thread that does not answer counts as dead; 0: 30 seconds.
	Timeout time.Duration
	// Parts, for tests, has one thread compute each dispatch twice: at once, and in so many parts, the last one first.
	// A run in which they write other bytes fails.
	Parts int
	// Form is one of Forms, or Reference; "": the first of Forms.
	Form string
}

// Reference is the form of a device whose kernels all run their Go references, slowly: an oracle for tests.
const Reference = "reference"

// Open makes a device.
func Open(o Options) (*Device, error) {
	forms, form, references := Forms(), o.Form, o.Form == Reference
	if form == "" || references {
		form = forms[0]
	}
	if !slices.Contains(forms, form) {
		return nil, fmt.Errorf("simd: %w: form %q; this host has %s", webgpu.ErrUnavailable, form,
			strings.Join(forms, ", "))
	}
	m, err := instantiate(form)
	if err != nil {
		return nil, fmt.Errorf("simd: %w: %w", webgpu.ErrUnavailable, err)
	}
	d := &Device{module: m, kernels: map[string]int{}, references: references}
	d.life = newLife((*backend)(d).replay)
	d.shared = registry.NewDevice("simd", d.limits(), (*backend)(d))
	if err := d.begin(form); err != nil {
		m.close()
		return nil, fmt.Errorf("simd: %w", err)
	}
	if err := (*backend)(d).startThreads(max(o.Threads, 1)); err != nil {
		d.Destroy()
		return nil, fmt.Errorf("simd: %w", err)
	}
	d.crew = newCrew(d.threads)
	d.timeout = cmp.Or(max(o.Timeout, 0), 30*time.Second)
	d.parts = o.Parts
	return d, nil
}

// begin has the heap begin and reads the table of kernels, unless references stand for all of them. The form of a
// kernel stands for it.
func (d *Device) begin(form string) error {
	d.heap = heap{room: d.module.room()}
	if d.references {
		return nil
	}
	text, err := (*backend)(d).alloc(longestName)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		n, err := d.module.call("kernel_name", address(i), text)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		name := make([]byte, n)
		d.module.get(text, name)
		of, own := strings.CutSuffix(string(name), "_"+form)
		if _, ok := d.kernels[of]; own || !ok {
			d.kernels[of] = i
		}
	}
	d.heap.give(text)
	return nil
}

// longestName is the length of the longest kernel's name or more.
const longestName = 64

// limits let a buffer have a gigabyte, since kernels count the bytes of one in 32 bits. With references all other
// limits but the memory's are the default ones, so that what runs here runs on every device.
func (d *Device) limits() webgpu.Limits {
	l, room := webgpu.DefaultLimits(), d.module.room()
	if l.MaxMemory = room.end - room.at; !d.references {
		l.MaxBindingSize, l.MaxBufferSize, l.MaxStorageBuffers = 1<<30, 1<<30, 16
	}
	return l
}

// Info describes the host.
func (d *Device) Info() webgpu.Info {
	i := webgpu.Info{
		Backend:      "cpu",
		Adapter:      d.module.name(),
		Threads:      d.threads,
		Architecture: runtime.GOARCH,
		Driver:       runtime.Version(),
		Software:     true,
		Limits:       d.limits(),
	}
	if d.references {
		i.Backend, i.Threads = "reference", 0
		i.Adapter = fmt.Sprintf("Go reference kernels (%s, %d threads)", runtime.GOARCH, runtime.GOMAXPROCS(0))
	}
	return i
}

func (d *backend) Lost() error {
	if err := d.life.err(); err != nil {
		return err
	}
	if err := d.failure.Load(); err != nil {
		return fmt.Errorf("%w: %w", webgpu.ErrDeviceLost, *err)
	}
	return nil
}

func (d *backend) Late() error { return nil }

// alloc takes zeroed memory.
func (d *backend) alloc(size int) (address, error) {
	at, end, err := d.heap.take(size)
	if err != nil {
		return 0, err
	}
	if err := d.module.grow(end); err != nil {
		d.heap.give(at)
		return 0, fmt.Errorf("%w: %w", webgpu.ErrNoMemory, err)
	}
	// Memory that was never taken is zero, and pages that nothing writes cost nothing.
	if used := min(size, d.heap.used-int(at)); used > 0 {
		_, err = d.module.call("zero", at, address(used))
	}
	d.heap.used = max(d.heap.used, end)
	return at, err
}

func (d *backend) MakeBuffer(_ string, size int, _ webgpu.Usage) (address, error) {
	return d.alloc(size)
}

func (d *backend) DropBuffer(b *buffer) { d.heap.give(b.Data) }

func (d *backend) MakeKernels(sources []*webgpu.KernelSource) ([]code, []error) {
	made, failed := make([]code, len(sources)), make([]error, len(sources))
	for i, src := range sources {
		number, ok := d.kernels[src.Entry]
		switch {
		case ok:
			made[i].number = number
			made[i].words, failed[i] = d.alloc(max(4*len(src.Words), 4))
			if failed[i] == nil {
				d.module.put(made[i].words, webgpu.U32Bytes(src.Words))
			}
		case src.Entry != "" && !d.references:
			failed[i] = fmt.Errorf("kernel %s: the module has no kernel %s; build it by src/build.sh",
				src.Name, src.Entry)
		case src.Reference == nil:
			failed[i] = fmt.Errorf("kernel %s has no reference to run on the host", src.Name)
		default:
			made[i].number = -1
		}
	}
	return made, failed
}

// MakeProgram writes a program: the address of each dispatch, then the dispatches.
func (d *backend) MakeProgram(_ string, steps []step) (recorded, error) {
	dispatches := make([][]byte, len(steps))
	size := 8 * len(steps)
	for i, s := range steps {
		bindings := make([]placed, len(s.Bindings))
		for j, b := range s.Bindings {
			bindings[j] = placed{b.Buffer.Data + address(b.Offset), b.Size}
		}
		dispatches[i] = dispatch(max(s.Kernel.Data.number, 0), s.Groups, s.Kernel.Data.words, bindings...)
		size += len(dispatches[i])
	}
	at, err := d.alloc(max(size, 8))
	if err != nil {
		return recorded{}, err
	}
	r := recorded{at: at, pace: &pace{}}
	list, data := make([]address, len(steps)), make([]byte, 0, size)
	next := at + address(8*len(steps))
	for i, s := range steps {
		list[i] = next
		data = binary.LittleEndian.AppendUint64(data, next)
		next += address(len(dispatches[i]))
		if s.Kernel.Data.number < 0 {
			r.fallbacks = append(r.fallbacks, i)
		}
	}
	d.module.put(at, append(data, bytes.Join(dispatches, nil)...))
	if err := d.reserve(steps, list); err != nil {
		d.heap.give(at)
		return recorded{}, err
	}
	return r, nil
}

// placed is a binding: where it is, and its bytes.
type placed struct {
	at   address
	size int
}

// dispatch returns a dispatch as kernel.h declares it.
func dispatch(kernel int, groups [3]int, words address, bindings ...placed) []byte {
	b := appendWords(nil, kernel, groups[0], groups[1], groups[2])
	b = binary.LittleEndian.AppendUint64(b, words)
	b = appendWords(b, len(bindings), 0)
	for _, p := range bindings {
		b = appendWords(binary.LittleEndian.AppendUint64(b, p.at), p.size, 0)
	}
	return b
}

// reserve makes the scratch large enough for the steps at the addresses in list.
func (d *backend) reserve(steps []step, list []address) error {
	most := 0
	for i, s := range steps {
		if s.Kernel.Data.number < 0 {
			continue
		}
		n, err := d.module.call("scratch_size", list[i])
		if err != nil {
			return err
		}
		most = max(most, int(n))
	}
	if most <= d.scratched {
		return nil
	}
	if d.scratched > 0 {
		d.heap.give(d.scratch)
		d.scratched = 0
	}
	var err error
	most = roundUp(most)
	if d.scratch, err = d.alloc(most * d.threads); err == nil {
		d.scratched = most
	}
	return err
}

func appendWords(b []byte, words ...int) []byte {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, uint32(w))
	}
	return b
}

func (d *backend) DropProgram(r recorded) { d.heap.give(r.at) }

func (d *backend) PutBytes(b *buffer, offset int, data []byte) error {
	d.module.put(b.Data+address(offset), data)
	return nil
}

func (d *backend) Replay(
	run []*program, from []*buffer, reads []webgpu.Region, _ int,
) (registry.Replayed, error) {
	d.fallbacks = 0
	wait, err := d.life.run(run, func() {
		for i, g := range reads {
			d.module.get(from[i].Data+address(g.Offset), g.Dst)
		}
	})
	if err != nil { // the run may still count
		return registry.Replayed{}, err
	}
	return registry.Replayed{Wait: wait, Fallbacks: d.fallbacks}, nil
}

func (d *backend) replay(run []*program) error {
	d.join()
	for _, p := range run {
		if err := d.span(p, 0, len(p.Steps)); err != nil {
			return err
		}
	}
	return nil
}

// span runs dispatches [from, to) of a program: those between references in one call each.
func (d *backend) span(p *program, from, to int) error {
	for _, i := range p.Data.fallbacks {
		if i < from || i >= to {
			continue
		}
		if err := d.enter(p, from, i); err != nil {
			return err
		}
		if err := d.reference(p, i); err != nil {
			return err
		}
		runtime.Gosched() // WebAssembly has one thread
		from = i + 1
	}
	return d.enter(p, from, to)
}

// viewed is a module whose memory is Go's too.
type viewed interface {
	// view returns n bytes of the memory.
	view(at address, n int) []byte
}

// reference runs the reference of dispatch i on its bindings, or on copies of them where Go cannot reach the module's
// memory.
func (d *backend) reference(p *program, i int) error {
	s := &p.Steps[i]
	if !d.references {
		d.fallbacks++
	}
	bindings := make([]webgpu.Memory, len(s.Bindings))
	reach, direct := d.module.(viewed)
	for j, b := range s.Bindings {
		if at := b.Buffer.Data + address(b.Offset); direct {
			bindings[j] = webgpu.MemoryOf(reach.view(at, b.Size))
		} else {
			bindings[j] = webgpu.NewMemory(b.Size)
			d.module.get(at, bindings[j].Bytes())
		}
	}
	if err := runReference(p.Label, i, s.Kernel.Source, s.Groups, bindings); err != nil || direct {
		return err
	}
	for j, b := range s.Bindings {
		if s.Kernel.Source.Bindings[j] == webgpu.ReadWrite {
			d.module.put(b.Buffer.Data+address(b.Offset), bindings[j].Bytes())
		}
	}
	return nil
}

func (d *backend) Clock() (string, time.Duration) { return webgpu.ClockHost, timing.Fine }

func (d *backend) Time(p *program, i, times int) (time.Duration, error) {
	d.join()
	begin := time.Now()
	for range times {
		if err := d.span(p, i, i+1); err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}

// Destroy loses the device and lets its memory go.
func (d *Device) Destroy() {
	if !d.life.end() {
		return
	}
	d.Release()
	d.life.after(func() {
		if d.pool != 0 {
			(*backend)(d).setWord(poolEnded, 1)
		}
		d.module.close()
	})
}
