//go:build !js

package simd

import (
	"context"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// page is the unit in which the memory grows.
const page = 1 << 16

func engine() string { return "wazero" }

// compiled is the module, compiled once for all devices of the process.
var compiled = sync.OnceValues(func() (func() (api.Module, error), error) {
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig())
	made, err := runtime.CompileModule(ctx, binaryModule)
	if err != nil {
		return nil, err
	}
	return func() (api.Module, error) {
		return runtime.InstantiateModule(ctx, made, wazero.NewModuleConfig().WithName(""))
	}, nil
})

// instance is a module under wazero. Its memory may move when it grows, so nothing keeps a view of it.
type instance struct {
	module    api.Module
	functions map[string]api.Function
	runs      api.Function
	stack     [8]uint64
}

func instantiate() (module, error) {
	open, err := compiled()
	if err != nil {
		return nil, err
	}
	m, err := open()
	if err != nil {
		return nil, err
	}
	return &instance{module: m, functions: map[string]api.Function{}, runs: m.ExportedFunction("run")}, nil
}

func (m *instance) call(name string, args ...uint32) (uint32, error) {
	f, ok := m.functions[name]
	if !ok {
		f = m.module.ExportedFunction(name)
		m.functions[name] = f
	}
	m.stack[0] = 0
	for i, a := range args {
		m.stack[i] = uint64(a)
	}
	err := f.CallWithStack(context.Background(), m.stack[:])
	return uint32(m.stack[0]), err
}

func (m *instance) run(program, from, to, scratch uint32) error {
	m.stack = [len(m.stack)]uint64{uint64(program), uint64(from), uint64(to), uint64(scratch)}
	return m.runs.CallWithStack(context.Background(), m.stack[:])
}

func (m *instance) grow(size int) error {
	memory := m.module.Memory()
	if have := int(memory.Size()); size > have {
		if _, ok := memory.Grow(uint32((size - have + page - 1) / page)); !ok {
			return fmt.Errorf("the module's memory does not grow from %d to %d MB", have>>20, size>>20)
		}
	}
	return nil
}

func (m *instance) view(at uint32, n int) []byte {
	view, ok := m.module.Memory().Read(at, uint32(n))
	if !ok {
		panic(fmt.Sprintf("simd: %d bytes at %d are outside the module's memory", n, at))
	}
	return view
}

func (m *instance) put(at uint32, data []byte) { copy(m.view(at, len(data)), data) }
func (m *instance) get(at uint32, dst []byte)  { copy(dst, m.view(at, len(dst))) }

func (m *instance) close() { _ = m.module.Close(context.Background()) }
