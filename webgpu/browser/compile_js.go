package browser

import (
	"fmt"
	"strings"
	"time"

	"github.com/hack-pad/safejs"

	"foretoken/webgpu"
)

// NewKernel compiles a kernel once per key.
func (d *Device) NewKernel(src *webgpu.KernelSource) (webgpu.Kernel, error) {
	k, err := d.NewKernels([]*webgpu.KernelSource{src})
	if err != nil {
		return 0, err
	}
	return k[0], nil
}

// compileWindow is how many kernels are with the browser's compilers at once in the background:
// enough to keep them busy, and few enough that runs get their turn between them.
const compileWindow = 4

// quiet is the time after its last run when a device counts as idle.
const quiet = 100 * time.Millisecond

// compileRoom is the number of kernels that may compile at once now. A software adapter runs on the cores that
// compile, so half of them are left to it while it is in use.
func (d *Device) compileRoom() int {
	if !d.info.Software || time.Since(time.Unix(0, d.used.Load())) > quiet {
		return compileWindow
	}
	return max(1, min(d.cores/2, compileWindow))
}

// compilation is a kernel that is compiled in the background. err may be read once done is closed.
type compilation struct {
	source *webgpu.KernelSource
	id     id
	done   chan struct{}
	err    error
}

// NewKernels compiles kernels side by side: the browser has several compiler
// threads, and one round trip does for all.
func (d *Device) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	if err := d.enter("new kernels", ""); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	var missing []*webgpu.KernelSource
	var begun []*compilation
	listed := map[string]bool{}
	for _, src := range sources {
		k, err := d.reg.CheckKernel(src)
		if err != nil {
			return nil, err
		}
		if k != nil || listed[src.Key] {
			continue
		}
		listed[src.Key] = true
		if c := d.compiling[src.Key]; c != nil {
			begun = append(begun, c)
		} else {
			missing = append(missing, src)
		}
	}
	ids := make([]id, len(missing))
	for i := range ids {
		ids[i] = d.newID()
	}
	var failed error
	note := func(src *webgpu.KernelSource, id id, err error) {
		if err == nil {
			d.counters.Kernels++
			d.reg.AddKernel(src, id)
		} else if failed == nil {
			failed = d.bridge.orLost(err)
		}
	}
	for i, err := range d.compile(missing, ids) {
		note(missing[i], ids[i], err)
	}
	for _, c := range begun {
		<-c.done // at the latest when the device is lost or the browser does not answer in time
		delete(d.compiling, c.source.Key)
		note(c.source, c.id, c.err)
	}
	if failed != nil {
		return nil, fmt.Errorf("browser: %w", failed)
	}
	kernels := make([]webgpu.Kernel, len(sources))
	for i, src := range sources {
		k, err := d.reg.CheckKernel(src) // again: one key may have come with two sources
		if err != nil {
			return nil, err
		}
		kernels[i] = k.Handle
	}
	return kernels, nil
}

// Compile begins to compile kernels, a few at a time and in order.
func (d *Device) Compile(sources []*webgpu.KernelSource) <-chan struct{} {
	all := make(chan struct{})
	if d.enter("compile", "") != nil { // the next call says why
		close(all)
		return all
	}
	defer d.mu.Unlock()
	var begin, wait []*compilation
	for _, src := range sources {
		if k, err := d.reg.CheckKernel(src); k != nil || err != nil {
			continue // NewKernel says what is wrong with it
		}
		c := d.compiling[src.Key]
		if c == nil {
			c = &compilation{source: src, id: d.newID(), done: make(chan struct{})}
			d.compiling[src.Key] = c
			begin = append(begin, c)
		}
		wait = append(wait, c)
	}
	go d.compileInBackground(begin)
	go func() {
		for _, c := range wait {
			<-c.done
		}
		close(all)
	}()
	return all
}

// compileInBackground takes no lock: the bridge is safe for several goroutines, and NewKernels waits for its
// answers.
func (d *Device) compileInBackground(begun []*compilation) {
	ended := make(chan struct{}, len(begun))
	under := 0
	for _, c := range begun {
		for ; under >= d.compileRoom(); under-- {
			<-ended
		}
		under++
		go func() {
			c.err = d.compile([]*webgpu.KernelSource{c.source}, []id{c.id})[0]
			close(c.done)
			ended <- struct{}{}
		}()
	}
}

// compile has JavaScript compile sources as the given ids and returns what became of each.
func (d *Device) compile(sources []*webgpu.KernelSource, ids []id) []error {
	failed := make([]error, len(sources))
	if len(sources) == 0 {
		return failed
	}
	var numbers, names, texts, accesses []any
	for i, src := range sources {
		numbers, names, texts = append(numbers, int(ids[i])), append(names, src.Name), append(texts, src.WGSL)
		accesses = append(accesses, letters(src.Bindings))
	}
	outcomes, err := d.bridge.request("compile", numbers, names, texts, accesses)
	for i, src := range sources {
		if err != nil {
			failed[i] = fmt.Errorf("kernel %s: %w", src.Name, err)
		} else {
			failed[i] = outcome(outcomes, i, src)
		}
	}
	return failed
}

// letters names accesses as replay.js does.
func letters(bindings []webgpu.Access) string {
	var s strings.Builder
	for _, a := range bindings {
		s.WriteByte("rwu"[a])
	}
	return s.String()
}

// outcome reads what became of one kernel.
func outcome(outcomes safejs.Value, i int, src *webgpu.KernelSource) error {
	v, err := outcomes.Index(i)
	if err != nil {
		return err
	}
	if v.IsNull() {
		return nil
	}
	r := reader{v: v}
	line, message := r.size("line"), r.text("message")
	if r.err != nil {
		return r.err
	}
	return webgpu.NewShaderError(src.Name, src.WGSL, line, message)
}
