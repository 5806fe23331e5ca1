package simd

import (
	"errors"
	"fmt"
	"syscall/js"
)

const page = 1 << 16

func engine() string { return "the browser's" }

// instance is a module in the browser's engine. Functions and the view of the memory are looked up once.
type instance struct {
	exports   js.Value
	memory    js.Value
	functions map[string]js.Value
	runs      js.Value
	bytes     js.Value // a Uint8Array of the memory; made again when it grows
	size      int
	// parts are views of ranges of the memory. A round reads and writes the same few ranges again and again, so that
	// each needs no call but that of the copy.
	parts map[span]js.Value
}

func instantiate() (m module, err error) {
	defer caught(&err)
	bytes := js.Global().Get("Uint8Array").New(len(binaryModule))
	js.CopyBytesToJS(bytes, binaryModule)
	type answer struct {
		value js.Value
		err   error
	}
	done := make(chan answer, 1)
	good := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- answer{value: args[0]}
		return nil
	})
	defer good.Release()
	bad := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- answer{err: js.Error{Value: args[0]}}
		return nil
	})
	defer bad.Release()
	js.Global().Get("WebAssembly").Call("instantiate", bytes, map[string]any{}).Call("then", good, bad)
	a := <-done
	if a.err != nil {
		return nil, a.err
	}
	exports := a.value.Get("instance").Get("exports")
	i := &instance{exports: exports, memory: exports.Get("memory"), functions: map[string]js.Value{},
		runs: exports.Get("run")}
	i.refresh()
	return i, nil
}

// caught turns a panic with a JavaScript exception into an error.
func caught(err *error) {
	if r := recover(); r != nil {
		if thrown, ok := r.(js.Error); ok {
			*err = thrown
			return
		}
		panic(r)
	}
}

func (m *instance) refresh() {
	m.bytes = js.Global().Get("Uint8Array").New(m.memory.Get("buffer"))
	m.size, m.parts = m.bytes.Length(), map[span]js.Value{}
}

func (m *instance) call(name string, args ...uint32) (result uint32, err error) {
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
	v := f.Invoke(values...)
	if v.Type() == js.TypeNumber {
		result = uint32(int64(v.Float()))
	}
	return result, nil
}

func (m *instance) run(program, from, to, scratch uint32) (err error) {
	defer caught(&err)
	m.runs.Invoke(int(program), int(from), int(to), int(scratch))
	return nil
}

func (m *instance) grow(size int) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the module's memory does not grow from %d to %d MB: %w", m.size>>20, size>>20, err)
		}
	}()
	if size <= m.size {
		return nil
	}
	defer caught(&err)
	m.memory.Call("grow", (size-m.size+page-1)/page)
	m.refresh()
	if m.size < size {
		return errors.New("the browser gave less")
	}
	return nil
}

// mostParts bounds the views kept: programs come and go, and each has ranges of its own.
const mostParts = 1024

func (m *instance) part(at uint32, n int) js.Value {
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

func (m *instance) put(at uint32, data []byte) {
	if len(data) > 0 {
		js.CopyBytesToJS(m.part(at, len(data)), data)
	}
}

func (m *instance) get(at uint32, dst []byte) {
	if len(dst) > 0 {
		js.CopyBytesToGo(dst, m.part(at, len(dst)))
	}
}

func (m *instance) close() { *m = instance{} }
