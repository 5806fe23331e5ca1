package simd

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall/js"

	"foretoken/webgpu"
)

var (
	//go:embed plain.wasm
	plainModule []byte
	//go:embed relaxed.wasm
	relaxedModule []byte
	//go:embed thread.js
	threadScript string
)

// cores asks the browser: Go counts one processor in WebAssembly.
func cores() int {
	if n := js.Global().Get("navigator").Get("hardwareConcurrency"); n.Type() == js.TypeNumber {
		return max(n.Int(), 1)
	}
	return 1
}

// instances is a module in the browser's engine: an instance here, and one in the worker of each other thread.
// Functions and the view of the memory are looked up once.
type instances struct {
	form      string
	module    js.Value
	memory    js.Value
	exports   js.Value
	functions map[string]js.Value
	bytes     js.Value // a Uint8Array of the memory; made again when it grows
	from      int      // where buffers may begin
	size      int
	shared    bool
	script    js.Value // the URL of the threads' script; undefined before the first starts
	workers   []js.Value
	callbacks []js.Func
	// parts are views of ranges of the memory. A round reads and writes the same few ranges again and again, so that
	// each needs no call but the copy itself.
	parts map[span]js.Value
}

// sizes lists sizes of the memory to try, in pages: phones refuse the first.
var sizes = []int{1<<16 - 1, 1 << 15, 1 << 14, 1 << 13}

// unshared returns the module with a memory that is not shared: a flag of the import. Atomic instructions are valid in
// both.
func unshared(module []byte) []byte {
	flags := bytes.Index(module, []byte("\x03env\x06memory\x02\x03")) + len("\x03env\x06memory\x02")
	module = bytes.Clone(module)
	module[flags] = 1 // a largest size, as before, and no more
	return module
}

func instantiate(form string) (m module, err error) {
	defer caught(&err)
	i := &instances{form: form, functions: map[string]js.Value{}}
	binary := plainModule
	if form == "relaxed" {
		binary = relaxedModule
	}
	if i.shared = js.Global().Get("crossOriginIsolated").Truthy(); !i.shared {
		binary = unshared(binary)
	}
	if i.memory, err = newMemory(i.shared); err != nil {
		return nil, err
	}
	if i.module, err = wait(js.Global().Get("WebAssembly").Call("compile", byteArray(binary))); err != nil {
		return nil, err
	}
	imports := map[string]any{"env": map[string]any{"memory": i.memory}}
	made, err := wait(js.Global().Get("WebAssembly").Call("instantiate", i.module, imports))
	if err != nil {
		return nil, err
	}
	i.exports = made.Get("exports")
	i.refresh()
	from, err := i.call("heap_base")
	i.from = int(from)
	return i, err
}

func (m *instances) name() string { return "WebAssembly SIMD (browser, " + m.form + ")" }
func (m *instances) room() span   { return span{m.from, reach} }

// sumModule is a module whose function f adds four products of -128 and of eight bits that are set, by an instruction
// of relaxed SIMD. Where the engine computes it by several instructions of a processor, two products are added in
// 16 bits, which have no room for them.
var sumModule = []byte("\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00" +
	"\x07\x05\x01\x01f\x00\x00\x0a\x17\x01\x15\x00\x41\x80\x7f\xfd\x0f\x41\x7f\xfd\x0f" +
	"\x41\x00\xfd\x0f\xfd\x93\x02\xfd\x1b\x00\x0b")

// Forms are the names of the modules that the browser can run, the best first: relaxed SIMD is faster where it is
// instructions of the processor.
var Forms = sync.OnceValue(func() []string {
	api, code := js.Global().Get("WebAssembly"), byteArray(sumModule)
	if !api.Call("validate", code).Bool() {
		return []string{"plain"}
	}
	f := api.Get("Instance").New(api.Get("Module").New(code)).Get("exports").Get("f")
	if f.Invoke().Int() == 2*math.MinInt16 {
		return []string{"plain", "relaxed"}
	}
	return []string{"relaxed", "plain"}
})

// newMemory makes the largest memory that the browser gives.
func newMemory(shared bool) (js.Value, error) {
	var refusal error
	for _, pages := range sizes {
		memory, err := memoryOf(pages, shared)
		if err == nil {
			return memory, nil
		}
		refusal = err
	}
	return js.Value{}, fmt.Errorf("%w: the browser gives the module's memory no %d MB of addresses: %w",
		webgpu.ErrNoMemory, sizes[len(sizes)-1]*page>>20, refusal)
}

func memoryOf(pages int, shared bool) (memory js.Value, err error) {
	defer caught(&err)
	return js.Global().Get("WebAssembly").Get("Memory").New(
		map[string]any{"initial": 2, "maximum": pages, "shared": shared}), nil
}

func byteArray(b []byte) js.Value {
	array := js.Global().Get("Uint8Array").New(len(b))
	js.CopyBytesToJS(array, b)
	return array
}

// wait waits for a promise.
func wait(promise js.Value) (js.Value, error) {
	type outcome struct {
		value js.Value
		err   error
	}
	done := make(chan outcome, 1)
	good := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- outcome{value: args[0]}
		return nil
	})
	defer good.Release()
	bad := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- outcome{err: js.Error{Value: args[0]}}
		return nil
	})
	defer bad.Release()
	promise.Call("then", good, bad)
	o := <-done
	return o.value, o.err
}

// caught turns a JavaScript exception into an error.
func caught(err *error) {
	if r := recover(); r != nil {
		thrown, ok := r.(js.Error)
		if !ok {
			panic(r)
		}
		*err = thrown
	}
}

func (m *instances) refresh() {
	m.bytes = js.Global().Get("Uint8Array").New(m.memory.Get("buffer"))
	m.size, m.parts = m.bytes.Length(), map[span]js.Value{}
}

func (m *instances) call(name string, args ...address) (result uint32, err error) {
	defer caught(&err)
	f, ok := m.functions[name]
	if !ok {
		f = m.exports.Get(name)
		m.functions[name] = f
	}
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = int(a)
	}
	if v := f.Invoke(values...); v.Type() == js.TypeNumber {
		result = uint32(int64(v.Float()))
	}
	return result, nil
}

// policy approves the addresses of threads on pages that require Trusted Types. It passes every address, so it stays in
// this program.
var policy js.Value

// trusted returns the address as Worker takes it. Where the page does not allow the policy, it stays a text, which the
// page's default policy may approve.
func trusted(address js.Value) (approved js.Value) {
	types := js.Global().Get("trustedTypes")
	if types.IsUndefined() {
		return address
	}
	approved = address
	var err error
	defer caught(&err)
	if policy.IsUndefined() {
		policy = types.Call("createPolicy", "foretoken", map[string]any{"createScriptURL": js.Global().Get("String")})
	}
	return policy.Call("createScriptURL", address)
}

// start starts a worker.
func (m *instances) start(pool address, part int, stack address, failed func(error)) (working <-chan error, err error) {
	if !m.shared {
		return nil, errors.New("threads need a page that is cross-origin isolated")
	}
	defer caught(&err)
	if m.script.IsUndefined() {
		m.script = js.Global().Get("URL").Call("createObjectURL",
			js.Global().Get("Blob").New([]any{threadScript}, map[string]any{"type": "text/javascript"}))
	}
	worker := js.Global().Get("Worker").New(trusted(m.script), map[string]any{"name": fmt.Sprint("foretoken-", part)})
	first, answered := make(chan error, 1), false
	answer := func(err error) {
		if !answered {
			answered = true
			first <- err
		} else if err != nil {
			failed(err)
		}
	}
	onMessage := js.FuncOf(func(_ js.Value, args []js.Value) any {
		if text := args[0].Get("data").String(); text != "ready" {
			answer(errors.New(text))
		} else {
			answer(nil)
		}
		return nil
	})
	onError := js.FuncOf(func(_ js.Value, args []js.Value) any {
		text := "the browser did not start a thread"
		if message := args[0].Get("message"); message.Type() == js.TypeString {
			text += ": " + message.String()
		}
		answer(errors.New(text))
		return nil
	})
	worker.Set("onmessage", onMessage)
	worker.Set("onerror", onError)
	m.workers, m.callbacks = append(m.workers, worker), append(m.callbacks, onMessage, onError)
	worker.Call("postMessage", map[string]any{"module": m.module, "memory": m.memory, "pool": int(pool),
		"part": part, "stack": int(stack), "failed": int(pool) + 4*poolFailed})
	return first, nil
}

func (m *instances) grow(end int) (err error) {
	if end <= m.size {
		return nil
	}
	from := m.size
	defer func() {
		if err != nil {
			err = fmt.Errorf("the browser does not let the module's memory grow from %d to %d MB: %w", from>>20,
				end>>20, err)
		}
	}()
	defer caught(&err)
	m.memory.Call("grow", (end-m.size+page-1)/page)
	m.refresh()
	return nil
}

// mostParts bounds the views kept: programs come and go, and each has other ranges.
const mostParts = 1024

func (m *instances) part(at address, n int) js.Value {
	s := span{int(at), int(at) + n}
	v, ok := m.parts[s]
	if !ok {
		if len(m.parts) == mostParts {
			clear(m.parts)
		}
		v = m.bytes.Call("subarray", s.at, s.end)
		m.parts[s] = v
	}
	return v
}

func (m *instances) put(at address, data []byte) {
	if len(data) > 0 {
		js.CopyBytesToJS(m.part(at, len(data)), data)
	}
}

func (m *instances) get(at address, dst []byte) {
	if len(dst) > 0 {
		js.CopyBytesToGo(dst, m.part(at, len(dst)))
	}
}

func (m *instances) close() {
	for _, w := range m.workers {
		w.Call("terminate")
	}
	for _, f := range m.callbacks {
		f.Release()
	}
	if !m.script.IsUndefined() {
		js.Global().Get("URL").Call("revokeObjectURL", m.script)
	}
	*m = instances{}
}
