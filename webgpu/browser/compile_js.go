package browser

import (
	"fmt"
	"strings"

	"github.com/hack-pad/safejs"

	"foretoken/webgpu"
)

// compileWindow limits the kernels that the browser compiles at once in the background:
// enough to keep them busy, and few enough that runs get their turn between them.
const compileWindow = 4

// compilation is a kernel that is compiled in the background. err may be read once done is closed.
type compilation struct {
	source *webgpu.KernelSource
	id     id
	done   chan struct{}
	err    error
}

// MakeKernels compiles kernels side by side: the browser has several compiler threads, and one round trip does for all.
func (d *backend) MakeKernels(sources []*webgpu.KernelSource) ([]id, []error) {
	ids, failed := make([]id, len(sources)), make([]error, len(sources))
	var missing []*webgpu.KernelSource
	var missingIDs []id
	for i, src := range sources {
		if c := d.compiling[src.Key]; c != nil {
			ids[i] = c.id
		} else {
			ids[i] = (*Device)(d).newID()
			missing, missingIDs = append(missing, src), append(missingIDs, ids[i])
		}
	}
	compiled := (*Device)(d).compile(missing, missingIDs)
	for i, src := range sources {
		err := error(nil)
		if c := d.compiling[src.Key]; c != nil {
			<-c.done // at the latest when the device is lost or the browser does not answer in time
			delete(d.compiling, src.Key)
			err = c.err
		} else {
			err, compiled = compiled[0], compiled[1:]
		}
		if err != nil {
			failed[i] = d.bridge.orLost(err)
		}
	}
	return ids, failed
}

// Compile begins to compile kernels, a few at a time and in order.
func (d *Device) Compile(sources []*webgpu.KernelSource) <-chan struct{} {
	all := make(chan struct{})
	if d.Enter("compile", "") != nil { // the next call says why
		close(all)
		return all
	}
	defer d.Leave()
	var begin, wait []*compilation
	for _, src := range sources {
		if k, err := d.CheckKernel(src); k != nil || err != nil {
			continue // NewKernels says what is wrong with it
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

// compileInBackground takes no lock: the bridge is safe for several goroutines, and NewKernels waits for its answers.
func (d *Device) compileInBackground(begun []*compilation) {
	ended := make(chan struct{}, len(begun))
	under := 0
	for _, c := range begun {
		for ; under >= compileWindow; under-- {
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
		numbers, names, texts = append(numbers, int(ids[i])), append(names, src.Name), append(texts, src.Shader())
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
	return webgpu.NewShaderError(src.Name, src.Shader(), line, message)
}
