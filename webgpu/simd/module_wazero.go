//go:build !js

package simd

import (
	"context"
	_ "embed"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"foretoken/webgpu"
)

//go:embed plain.wasm
var plainModule []byte

// memoryModule is (module (memory (export "memory") 2 65535 shared)): all instances of a device import it.
var memoryModule = []byte("\x00asm\x01\x00\x00\x00\x05\x06\x01\x03\x02\xff\xff\x03\x07\x0a\x01\x06memory\x02\x00")

// compilations holds the machine code of the modules for all devices of the process.
var compilations = sync.OnceValue(wazero.NewCompilationCache)

// instances is a module under wazero: one instance for each thread.
type instances struct {
	runtime   wazero.Runtime
	code      wazero.CompiledModule
	memory    api.Memory
	main      api.Module
	functions map[string]api.Function
	stack     [8]uint64 // of a call's arguments and result
	from      int       // where buffers may begin
	threads   sync.WaitGroup
}

func newInstances() (m module, err error) {
	ctx := experimental.WithMemoryAllocator(context.Background(), experimental.MemoryAllocatorFunc(reserve))
	config := wazero.NewRuntimeConfig().WithCompilationCache(compilations()).
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesThreads)
	i := &instances{runtime: wazero.NewRuntimeWithConfig(ctx, config), functions: map[string]api.Function{}}
	defer func() {
		if r := recover(); r != nil { // wazero panics where the least memory is refused
			err = fmt.Errorf("%w: the system gives no addresses for the module's memory", webgpu.ErrNoMemory)
		}
		if err != nil {
			_ = i.runtime.Close(ctx)
		}
	}()
	env, err := i.runtime.InstantiateWithConfig(ctx, memoryModule, wazero.NewModuleConfig().WithName("env"))
	if err != nil {
		return nil, err
	}
	i.memory = env.ExportedMemory("memory")
	if i.code, err = i.runtime.CompileModule(ctx, plainModule); err != nil {
		return nil, err
	}
	if i.main, err = i.another(); err != nil {
		return nil, err
	}
	from, err := i.call("heap_base")
	if err == nil {
		i.from = int(from)
		_, err = i.call("prefer_narrow") // wazero is slower with eight rows at once
	}
	return i, err
}

func (m *instances) name() string { return "WebAssembly SIMD (wazero)" }
func (m *instances) room() span   { return span{m.from, reach} }

func (m *instances) another() (api.Module, error) {
	return m.runtime.InstantiateModule(context.Background(), m.code, wazero.NewModuleConfig().WithName(""))
}

func (m *instances) call(name string, args ...address) (uint32, error) {
	f, ok := m.functions[name]
	if !ok {
		f = m.main.ExportedFunction(name)
		m.functions[name] = f
	}
	m.stack[0] = 0
	copy(m.stack[:], args)
	err := f.CallWithStack(context.Background(), m.stack[:])
	return uint32(m.stack[0]), err
}

func (m *instances) start(pool address, part int, stack address, failed func(error)) (working <-chan error, err error) {
	i, err := m.another()
	if err != nil {
		return nil, err
	}
	i.ExportedGlobal("__stack_pointer").(api.MutableGlobal).Set(stack)
	m.threads.Go(func() {
		if _, err := i.ExportedFunction("work").Call(context.Background(), pool, uint64(part)); err != nil {
			failed(err)
		}
	})
	started := make(chan error)
	close(started)
	return started, nil
}

func (m *instances) grow(end int) error {
	if have := int(m.memory.Size()); end > have {
		if _, ok := m.memory.Grow(uint32((end - have + page - 1) / page)); !ok {
			return fmt.Errorf("the module's memory does not grow from %d to %d MB", have>>20, end>>20)
		}
	}
	return nil
}

func (m *instances) view(at address, n int) []byte {
	view, ok := m.memory.Read(uint32(at), uint32(n))
	if !ok {
		panic(fmt.Sprintf("simd: %d bytes at %d are outside the module's memory", n, at))
	}
	return view
}

func (m *instances) put(at address, data []byte) { copy(m.view(at, len(data)), data) }
func (m *instances) get(at address, dst []byte)  { copy(dst, m.view(at, len(dst))) }

// refused is a memory that the system did not give.
type refused struct{}

func (refused) Reallocate(uint64) []byte { return nil }
func (refused) Free()                    {}

func (m *instances) close() {
	m.threads.Wait()
	_ = m.runtime.Close(context.Background())
}
