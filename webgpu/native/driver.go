//go:build cgo && !js

package native

import (
	"fmt"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
)

// driver owns the C objects of a device. Only the driver goroutine uses it.
type driver struct {
	info     webgpu.Info
	mail     mailbox
	lost     <-chan struct{}
	instance *wgpu.Instance
	adapter  *wgpu.Adapter
	device   *wgpu.Device
	queue    *wgpu.Queue

	staging     *wgpu.Buffer // what every read goes through; nil until the first
	stagingSize int
	host        []byte // what came through it

	buffers   map[*wgpu.Buffer]struct{}
	pipelines []*pipeline
	binds     map[*wgpu.BindGroup]struct{}
}

// copyOut is a range to bring back.
type copyOut struct {
	from         *wgpu.Buffer
	offset, size int
}

// readback holds the results of a run.
type readback struct {
	data []byte // valid until the next run
	registry.Replayed
}

func openDriver(o Options) (*driver, error) {
	quiet()
	drv := &driver{
		mail:     newMailbox(),
		instance: newInstance(),
		buffers:  map[*wgpu.Buffer]struct{}{},
		binds:    map[*wgpu.BindGroup]struct{}{},
	}
	found := enumerate(drv.instance, o.Null)
	if len(found) == 0 {
		drv.release()
		return nil, fmt.Errorf("native: %w: no Vulkan, Metal or Direct3D 12 driver was found", webgpu.ErrUnavailable)
	}
	drv.adapter = found[0]
	for _, a := range found[1:] {
		a.Release()
	}
	limits := adapterLimits(drv.adapter)
	properties := drv.adapter.GetProperties()
	drv.info = describe(properties, limits)
	var err error
	if drv.device, err = drv.mail.requestDevice(drv.adapter, limits); err != nil {
		drv.release()
		return nil, fmt.Errorf("native: %w: %s: %v", webgpu.ErrUnavailable, properties.Name, err)
	}
	drv.queue = drv.device.GetQueue()
	return drv, nil
}

// release frees everything in the order of dependence and returns the objects that the library still holds.
func (drv *driver) release() (left Handles) {
	if drv.device != nil { // what is in flight must not lose its buffers
		start := time.Now()
		drv.poll(func() bool { return time.Since(start) > time.Minute })
	}
	for b := range drv.binds {
		b.Release()
	}
	for _, p := range drv.pipelines {
		p.release()
	}
	for b := range drv.buffers {
		b.Destroy()
		b.Release()
	}
	drv.freeStaging()
	if drv.queue != nil {
		drv.queue.Release()
	}
	if drv.device != nil {
		drv.device.Release()
	}
	if drv.adapter != nil {
		drv.adapter.Release()
	}
	left = handles(drv.instance)
	drv.instance.Release()
	return left
}

func (drv *driver) newBuffer(label string, size int, usage webgpu.Usage) (*wgpu.Buffer, error) {
	flags := wgpu.BufferUsage_CopyDst | wgpu.BufferUsage_Storage | wgpu.BufferUsage_CopySrc
	if usage == webgpu.Uniform {
		flags = wgpu.BufferUsage_CopyDst | wgpu.BufferUsage_Uniform
	}
	b, err := drv.device.CreateBuffer(&wgpu.BufferDescriptor{Label: label, Size: uint64(size), Usage: flags})
	if err != nil {
		return nil, plain(err)
	}
	if err := drv.mail.take(); err != nil { // out of memory comes this way
		b.Release()
		return nil, plain(err)
	}
	drv.buffers[b] = struct{}{}
	return b, nil
}

func (drv *driver) freeBuffer(b *wgpu.Buffer) {
	delete(drv.buffers, b)
	b.Destroy()
	b.Release()
}

func (drv *driver) newPipeline(src *webgpu.KernelSource) (made *pipeline, err error) {
	entries := make([]wgpu.BindGroupLayoutEntry, len(src.Bindings))
	for i, a := range src.Bindings {
		kind := wgpu.BufferBindingType_Storage
		switch a {
		case webgpu.ReadOnly:
			kind = wgpu.BufferBindingType_ReadOnlyStorage
		case webgpu.Constants:
			kind = wgpu.BufferBindingType_Uniform
		}
		entries[i] = wgpu.BindGroupLayoutEntry{
			Binding:    uint32(i),
			Visibility: wgpu.ShaderStage_Compute,
			Buffer:     wgpu.BufferBindingLayout{Type: kind},
		}
	}
	p := &pipeline{}
	defer func() {
		if err != nil {
			p.release()
		}
	}()
	p.module, err = drv.device.CreateShaderModule(&wgpu.ShaderModuleDescriptor{
		Label: src.Name, WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: src.Shader()}})
	if err != nil {
		return nil, shaderError(src, err)
	}
	p.layout, err = drv.device.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Label: src.Name, Entries: entries})
	if err != nil {
		return nil, plain(err)
	}
	p.outer, err = drv.device.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{
		Label: src.Name, BindGroupLayouts: []*wgpu.BindGroupLayout{p.layout}})
	if err != nil {
		return nil, plain(err)
	}
	p.compute, err = drv.device.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Label: src.Name, Layout: p.outer,
		Compute: wgpu.ProgrammableStageDescriptor{Module: p.module, EntryPoint: "main"}})
	if err == nil {
		err = drv.mail.take()
	}
	if err != nil {
		return nil, shaderError(src, err)
	}
	drv.pipelines = append(drv.pipelines, p)
	return p, nil
}

func (p *pipeline) release() {
	if p.compute != nil {
		p.compute.Release()
	}
	if p.outer != nil {
		p.outer.Release()
	}
	if p.layout != nil {
		p.layout.Release()
	}
	if p.module != nil {
		p.module.Release()
	}
}

// record makes a program's bind groups and proves that it can be encoded.
func (drv *driver) record(steps []step) (made []recorded, err error) {
	made = make([]recorded, 0, len(steps))
	defer func() {
		if err != nil {
			drv.freeProgram(made)
			made = nil
		}
	}()
	for i, s := range steps {
		entries := make([]wgpu.BindGroupEntry, len(s.Bindings))
		for j, b := range s.Bindings {
			entries[j] = wgpu.BindGroupEntry{Binding: uint32(j), Buffer: b.Buffer.Data, Offset: uint64(b.Offset),
				Size: uint64(b.Size)}
		}
		g, err := drv.device.CreateBindGroup(&wgpu.BindGroupDescriptor{
			Label: s.Kernel.Source.Name, Layout: s.Kernel.Data.layout, Entries: entries})
		if err != nil {
			return made, fmt.Errorf("dispatch %d, kernel %s: %w", i, s.Kernel.Source.Name, plain(err))
		}
		drv.binds[g] = struct{}{}
		made = append(made, recorded{s.Kernel.Data.compute, g,
			[3]uint32{uint32(s.Groups[0]), uint32(s.Groups[1]), uint32(s.Groups[2])}})
	}
	commands, err := drv.encode([][]recorded{made}, nil)
	if err != nil {
		return made, drv.blame(steps, made, err)
	}
	commands.Release()
	return made, nil
}

// blame finds the dispatch that cannot be encoded; the library names only the pass.
func (drv *driver) blame(steps []step, made []recorded, whole error) error {
	for i := range made {
		commands, err := drv.encode([][]recorded{made[i : i+1]}, nil)
		if err != nil {
			return fmt.Errorf("dispatch %d, kernel %s: %w", i, steps[i].Kernel.Source.Name, err)
		}
		commands.Release()
	}
	return whole
}

func (drv *driver) freeProgram(made []recorded) {
	for _, r := range made {
		delete(drv.binds, r.bind)
		r.bind.Release()
	}
}

// encode makes one command buffer: a compute pass of all programs, then the copies into the staging buffer.
func (drv *driver) encode(programs [][]recorded, copies []copyOut) (*wgpu.CommandBuffer, error) {
	encoder, err := drv.device.CreateCommandEncoder(nil)
	if err != nil {
		return nil, plain(err)
	}
	defer encoder.Release()
	if len(programs) > 0 {
		if err := encodePass(encoder, programs); err != nil {
			return nil, plain(err)
		}
	}
	at := 0
	for _, c := range copies {
		if c.size == 0 {
			continue
		}
		if err := encoder.CopyBufferToBuffer(c.from, uint64(c.offset), drv.staging, uint64(at),
			uint64(c.size)); err != nil {
			return nil, plain(err)
		}
		at += c.size
	}
	commands, err := encoder.Finish(nil)
	if err != nil {
		return nil, plain(err)
	}
	return commands, nil
}

func encodePass(encoder *wgpu.CommandEncoder, programs [][]recorded) error {
	pass := encoder.BeginComputePass(nil)
	defer pass.Release()
	var current *wgpu.ComputePipeline
	for _, p := range programs {
		for _, r := range p {
			if r.groups[0] == 0 || r.groups[1] == 0 || r.groups[2] == 0 {
				continue
			}
			if r.pipeline != current {
				pass.SetPipeline(r.pipeline)
				current = r.pipeline
			}
			pass.SetBindGroup(0, r.bind, nil)
			pass.DispatchWorkgroups(r.groups[0], r.groups[1], r.groups[2])
		}
	}
	return pass.End()
}

// put moves queued writes into the library's queue.
func (drv *driver) put(w *writeQueue) error {
	for _, x := range w.Writes {
		if err := drv.queue.WriteBuffer(x.Buffer.Data, uint64(x.Offset), w.Bytes[x.Start:x.End]); err != nil {
			return fmt.Errorf("write to buffer %s: %w", x.Buffer.Label, plain(err))
		}
	}
	return nil
}

// flush submits queued writes alone and waits for them: each has a staging copy in the library, so a model would
// occupy its memory twice.
func (drv *driver) flush(w *writeQueue) error {
	if err := drv.put(w); err != nil {
		return err
	}
	drv.queue.Submit()
	drv.poll(func() bool { return false })
	return nil
}

// poll goes on until nothing is in flight or over says so. The library is never left to wait by itself: its wait gives
// up after five seconds, takes what was submitted for done and frees it, and a driver that still runs it crashes.
func (drv *driver) poll(over func() bool) {
	for start := time.Now(); !drv.device.Poll(false, nil) && !over(); {
		nap(time.Since(start))
	}
}

// nap sleeps a little between two polls: the longer the wait has lasted, the longer.
func nap(waited time.Duration) {
	pause(min(max(waited/16, 20*time.Microsecond), time.Millisecond))
}

// run submits writes, programs and copies at once, and waits for the copies.
func (drv *driver) run(w *writeQueue, run []*prog, copies []copyOut, result *readback) error {
	if err := drv.put(w); err != nil {
		return err
	}
	total := 0
	for _, c := range copies {
		total += c.size
	}
	if err := drv.reserve(total, result); err != nil {
		return err
	}
	programs := make([][]recorded, len(run))
	for i, p := range run {
		programs[i] = p.Data
	}
	commands, err := drv.encode(programs, copies)
	if err != nil {
		return err
	}
	drv.queue.Submit(commands)
	commands.Release()
	if err := drv.mail.take(); err != nil || total == 0 {
		return err
	}
	start := time.Now()
	if err := drv.await(total); err != nil {
		return err
	}
	result.Wait = time.Since(start)
	drv.host = append(drv.host[:0], drv.staging.GetMappedRange(0, uint(total))...)
	result.data = drv.host
	return plain(drv.staging.Unmap())
}

// reserve makes the staging buffer at least size bytes large.
func (drv *driver) reserve(size int, result *readback) error {
	if size <= drv.stagingSize {
		return nil
	}
	grown := 64 << 10
	for grown < size {
		grown *= 2
	}
	grown = max(size, min(grown, drv.info.Limits.MaxBufferSize))
	b, err := drv.device.CreateBuffer(&wgpu.BufferDescriptor{
		Label: "staging", Size: uint64(grown), Usage: wgpu.BufferUsage_MapRead | wgpu.BufferUsage_CopyDst})
	if err == nil {
		if err = drv.mail.take(); err != nil {
			b.Release()
		}
	}
	if err != nil {
		return fmt.Errorf("staging buffer of %d bytes: %w", grown, plain(err))
	}
	drv.freeStaging()
	drv.staging, drv.stagingSize = b, grown
	result.Buffers = 1
	return nil
}

func (drv *driver) freeStaging() {
	if drv.staging != nil {
		drv.staging.Destroy()
		drv.staging.Release()
	}
}

// await maps the staging buffer and polls until it is mapped or the device is lost; see poll.
func (drv *driver) await(size int) error {
	if err := drv.mail.mapRead(drv.staging, size); err != nil {
		return err
	}
	for start := time.Now(); ; {
		drv.device.Poll(false, nil)
		if err := drv.mail.take(); err != nil {
			return err
		}
		if done, err := drv.mail.mapped(); done {
			return err
		}
		select {
		case <-drv.lost:
			return webgpu.ErrDeviceLost
		default:
			nap(time.Since(start))
		}
	}
}
