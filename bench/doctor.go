package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/models/graph"
	"foretoken/models/tune"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// DoctorFormat names the format of a DoctorReport; another number means that fields changed their meaning.
const DoctorFormat = "foretoken-doctor-2"

// DoctorOptions adds to a DoctorReport what Diagnose cannot know.
type DoctorOptions struct {
	Browser  string // the browser's name for itself, or empty
	Repeat   int    // timed passes and submits of each kind; 0: 5
	Progress func(done, total int)
}

// DoctorReport describes a device, what was chosen for it and what it reaches, so that devices can be compared.
type DoctorReport struct {
	Format  string   `json:"format"`
	Program Program  `json:"program"`
	Browser string   `json:"browser,omitempty"`
	Adapter Adapter  `json:"adapter"`
	Summary []string `json:"summary"` // of all, for people
	// Checks compare kernels with their references in Go, which accumulate in float64.
	Checks []KernelCheck `json:"checks"`
	// Products are products with a matrix too large for caches.
	Products []ProductSpeed `json:"products"`
	// Memory is of the cpu device alone.
	Memory *MemorySpeed `json:"memory,omitempty"`
	// Choices are the kernels chosen for the models' matrices: model → class → choice.
	Choices map[string]map[string]string `json:"choices"`
	Costs   *CostReport                  `json:"costs"`
}

// Program identifies a build.
type Program struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// version names a release; the linker sets it: -ldflags "-X foretoken/bench.version=0.1.0". A program that go install
// built has the version of its module.
var version string

// ThisProgram identifies the running program.
func ThisProgram() Program {
	p := Program{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Version = cmp.Or(version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				p.Revision = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return p
}

// Adapter describes a device.
type Adapter struct {
	Backend      string        `json:"backend"`
	Name         string        `json:"name"`
	Vendor       string        `json:"vendor,omitempty"`
	Architecture string        `json:"architecture,omitempty"`
	Driver       string        `json:"driver,omitempty"`
	Type         string        `json:"type"` // "gpu", or "software" for a device that runs on the CPU
	Threads      int           `json:"threads,omitempty"`
	Features     []string      `json:"features"`
	Limits       AdapterLimits `json:"limits"`
}

// AdapterLimits are webgpu.Limits.
type AdapterLimits struct {
	BindingBytes         int `json:"binding_bytes"`
	BufferBytes          int `json:"buffer_bytes"`
	StorageBuffers       int `json:"storage_buffers"`
	WorkgroupBytes       int `json:"workgroup_bytes"`
	WorkgroupInvocations int `json:"workgroup_invocations"`
	Workgroups           int `json:"workgroups_per_dimension"`
}

// DescribeAdapter describes a device.
func DescribeAdapter(i webgpu.Info) Adapter {
	kind := "gpu"
	if i.Software {
		kind = "software"
	}
	l := i.Limits
	return Adapter{Backend: i.Backend, Name: i.Adapter, Vendor: i.Vendor, Architecture: i.Architecture,
		Driver: i.Driver, Type: kind, Threads: i.Threads, Features: append([]string{}, i.Features...),
		Limits: AdapterLimits{l.MaxBindingSize, l.MaxBufferSize, l.MaxStorageBuffers, l.MaxWorkgroupStorage,
			l.MaxWorkgroupInvocations, l.MaxWorkgroupsPerDim}}
}

// KernelCheck is a kernel's largest difference from its reference, as a part of the largest result.
type KernelCheck struct {
	Kernel  string  `json:"kernel"`
	Worst   float64 `json:"worst"`
	Allowed float64 `json:"allowed"`
	OK      bool    `json:"ok"`
	Error   string  `json:"error,omitempty"` // why it did not run
}

// ProductSpeed is the speed of a family of kernels on a matrix.
type ProductSpeed struct {
	Format string      `json:"format"`
	Family string      `json:"family"`
	Bytes  int         `json:"bytes"` // of the matrix
	Rows   []RowsSpeed `json:"rows"`  // by rows of activations
	Error  string      `json:"error,omitempty"`
}

// RowsSpeed is the shortest time of a product with M rows of activations.
type RowsSpeed struct {
	M      int     `json:"m"`
	MS     float64 `json:"ms"`
	Ratio  float64 `json:"ratio"`   // to one row's
	GBs    float64 `json:"gb_s"`    // of weights read
	GFLOPs float64 `json:"gflop_s"` // multiplications and additions
}

// Diagnose checks and measures the device of a session, and the passes of its models. It ends any running generation.
func Diagnose(ctx context.Context, s *foretoken.Session, o DoctorOptions) (*DoctorReport, error) {
	r := &DoctorReport{Format: DoctorFormat, Program: ThisProgram(), Browser: o.Browser, Choices: s.Tuning()}
	delete(r.Choices, "costs") // measured below
	repeat := cmp.Or(o.Repeat, 5)
	err := s.Exclusive(ctx, func(m foretoken.Models) error {
		r.Adapter = DescribeAdapter(m.Device.Info())
		r.Checks, r.Products = nil, nil
		var parts []func()
		for _, c := range doctorChecks(m.Device.Info()) {
			parts = append(parts, func() { r.Checks = append(r.Checks, c.run(m.Device)) })
		}
		for _, f := range timed {
			parts = append(parts, func() { r.Products = append(r.Products, timeProducts(m.Device, f, repeat)...) })
		}
		if r.Adapter.Backend == "cpu" {
			parts = append(parts, func() {
				r.Memory = timeMemory(m.Device, repeat)
				_, r.Memory.Weights = m.Target.Graph.Work()
			})
		}
		for i, run := range parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			run()
			if err := m.Device.Lost(); err != nil {
				return err
			}
			if o.Progress != nil {
				o.Progress(i+1, len(parts))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r.Costs, err = MeasureCosts(ctx, s, CostOptions{Repeat: repeat, Progress: o.Progress}); err != nil {
		return nil, err
	}
	if r.Memory != nil {
		r.Memory.compare(r.Costs.Verify[0].MS)
	}
	r.Summary = r.summary()
	return r, nil
}

// Wrong returns the number of checks that failed.
func (r *DoctorReport) Wrong() (n int) {
	for _, c := range r.Checks {
		if !c.OK {
			n++
		}
	}
	return n
}

// summary describes the report in lines for people.
func (r *DoctorReport) summary() []string {
	a := r.Adapter
	lines := []string{fmt.Sprintf("%s: %s (%s)%s", a.Backend, quote.Escape(a.Name, 80), a.Type, driverOf(a))}
	if len(a.Features) > 0 {
		lines = append(lines, "features: "+strings.Join(a.Features, ", "))
	}
	for _, c := range r.Checks {
		if !c.OK {
			lines = append(lines, fmt.Sprintf("WRONG: %s differs from its reference by %.2g of the largest result, "+
				"%.2g is allowed%s", c.Kernel, c.Worst, c.Allowed, because(c.Error)))
		}
	}
	lines = append(lines, fmt.Sprintf("kernels checked against references: %d, wrong: %d", len(r.Checks), r.Wrong()))
	for _, p := range r.Products {
		line := fmt.Sprintf("%s %s, %s:%s", p.Format, p.Family, graph.Size(int64(p.Bytes)), because(p.Error))
		for _, t := range p.Rows {
			line += fmt.Sprintf("  M=%d %.2f ms, %.1f GB/s, %.2f×", t.M, t.MS, t.GBs, t.Ratio)
		}
		lines = append(lines, line)
	}
	if r.Memory != nil {
		lines = append(lines, r.Memory.line(a.Threads))
	}
	for _, model := range slices.Sorted(maps.Keys(r.Choices)) {
		var chosen []string
		for _, class := range slices.Sorted(maps.Keys(r.Choices[model])) {
			chosen = append(chosen, class+" → "+r.Choices[model][class])
		}
		lines = append(lines, model+" kernels: "+strings.Join(chosen, ", "))
	}
	line := "passes of " + r.Costs.Target + ":"
	for _, v := range r.Costs.Verify {
		line += fmt.Sprintf("  T(%d) %.2f ms, %.2f×", v.N, v.MS, v.Ratio)
	}
	lines = append(lines, line)
	for i := range lines { // names come from drivers
		lines[i] = quote.Escape(lines[i], 2000)
	}
	return lines
}

func driverOf(a Adapter) string {
	if a.Driver == "" {
		return ""
	}
	return ", " + quote.Escape(a.Driver, 80)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// trial is a program with its inputs, for any device.
type trial struct {
	inputs  []input
	outputs []int // words of the result, and of scratch
	record  recordFunc
}

type recordFunc func(r *kernels.Recorder, in, out []kernels.View)

// input is a buffer of a number of words, filled with some again and again.
type input struct {
	words []uint32
	total int
}

func full(words []uint32) input { return input{words, len(words)} }

// workplace holds a trial's buffers on a device.
type workplace struct {
	dev     webgpu.Device
	in, out []kernels.View
	timer   *tune.Timer // nil before the first timing
}

// place makes a trial's buffers.
func (t *trial) place(dev webgpu.Device) (*workplace, error) {
	p := &workplace{dev: dev}
	for _, in := range t.inputs {
		v, err := p.view(in.total)
		if err != nil {
			return nil, err
		}
		p.in = append(p.in, v)
		for from := 0; from < in.total; from += len(in.words) {
			part := in.words[:min(len(in.words), in.total-from)]
			if err := dev.Write(v.Buffer, 4*from, webgpu.U32Bytes(part)); err != nil {
				p.free()
				return nil, err
			}
		}
	}
	for _, words := range t.outputs {
		v, err := p.view(words)
		if err != nil {
			return nil, err
		}
		p.out = append(p.out, v)
	}
	return p, nil
}

// view makes a buffer. If it fails, it frees all.
func (p *workplace) view(words int) (kernels.View, error) {
	buffer, err := p.dev.NewBuffer("doctor", 4*words, webgpu.Storage)
	if err != nil {
		p.free()
	}
	return kernels.View{Buffer: buffer, Size: 4 * words}, err
}

func (p *workplace) free() {
	for _, v := range append(p.in, p.out...) {
		p.dev.FreeBuffer(v.Buffer)
	}
	p.in, p.out = nil, nil
}

// build makes a program on the buffers.
func (p *workplace) build(record recordFunc) (*kernels.Built, error) {
	r := kernels.NewRecorder("doctor", p.dev.Info())
	record(r, p.in, p.out)
	return kernels.Build(p.dev, r)
}

// result runs the trial once.
func (t *trial) result(dev webgpu.Device) (webgpu.Memory, error) {
	p, err := t.place(dev)
	if err != nil {
		return nil, err
	}
	defer p.free()
	b, err := p.build(t.record)
	if err != nil {
		return nil, err
	}
	defer b.Free()
	m := webgpu.NewMemory(4 * t.outputs[0])
	return m, dev.Run(b.Programs, webgpu.Region{Buffer: p.out[0].Buffer, Dst: m.Bytes()})
}

// productTrial makes a trial of products with a matrix of pseudo-random numbers. record returns a function that records
// the product of up to most rows.
func productTrial(format kernels.Format, rows, cols, most int) (t *trial, record func(matmul.Family, int) recordFunc) {
	quants := noise(1, min(rows*format.WordsPerRow(cols), 1<<18))
	if !format.Quantised() {
		for i := range quants {
			quants[i] &= 0xbfffbfff // below two, in F32, F16 and BF16
		}
	}
	// 0x3c003c00 is two halves, bytes or a float of moderate size, whatever a format's scales are.
	scales := slices.Repeat([]uint32{0x3c003c00}, 1<<10)
	t = &trial{outputs: []int{most * rows, most * matmul.PackedWords(cols)},
		inputs: []input{{quants, rows * format.WordsPerRow(cols)}, {scales, max(rows*format.ScalesPerRow(cols), 64)},
			full(floats(noise(2, most*cols)))}}
	return t, func(f matmul.Family, m int) recordFunc {
		return func(r *kernels.Recorder, in, out []kernels.View) {
			w := &kernels.Weight{Format: format, Rows: rows, Cols: cols,
				Parts: []kernels.WeightPart{{Rows: rows, Quants: in[0], Scales: in[1]}}}
			r.Rounded = out[1]
			matmul.Record(r, f, w, kernels.Rows{View: in[2], Stride: cols},
				kernels.Rows{View: out[0], Stride: rows}, m, false)
		}
	}
}

// noise returns pseudo-random words (PCG, O'Neill 2014, with a stream for each seed).
func noise(seed uint32, n int) []uint32 {
	words, state := make([]uint32, n), uint64(seed)
	for i := range words {
		state = state*6364136223846793005 + (uint64(seed)<<1 | 1)
		words[i] = bits.RotateLeft32(uint32((state>>18^state)>>27), -int(state>>59))
	}
	return words
}

// floats turns words into floats in [-1, 1).
func floats(words []uint32) []uint32 {
	for i, w := range words {
		words[i] = math.Float32bits(float32(int32(w)) / (1 << 31))
	}
	return words
}

// doctorFamilies returns the families of a device for a format; a host has none.
func doctorFamilies(info webgpu.Info, format kernels.Format) []matmul.Family {
	families := matmul.Families(info, format)
	if info.Host() {
		families = families[:1]
	}
	return families
}

// timed are the formats whose products are timed: Q8_0, which comes nearest to memory's speed, and Q4_K, which most
// files have.
var timed = []kernels.Format{kernels.Q8_0, kernels.Q4_K}

// timeProducts times the families of a device on a matrix, which on a GPU is larger than most caches.
func timeProducts(dev webgpu.Device, format kernels.Format, repeat int) (all []ProductSpeed) {
	const cols = 4096
	info := dev.Info()
	room := min(256<<20, info.Limits.MaxBindingSize, info.Limits.MaxBufferSize)
	if info.Software || info.Host() {
		room = 4 << 20
	}
	row := 4 * (format.WordsPerRow(cols) + format.ScalesPerRow(cols))
	rows := room / row &^ 63
	t, record := productTrial(format, rows, cols, 16)
	p, failed := t.place(dev)
	if failed == nil {
		defer p.free()
	}
	families := doctorFamilies(info, format)
	for _, f := range families {
		speed := ProductSpeed{Format: format.String(), Family: f.String(), Bytes: rows * row, Rows: []RowsSpeed{}}
		err := failed
		for _, m := range []int{1, 2, 4, 8, 16} {
			var ms float64
			if err == nil {
				ms, err = p.time(record(f, m), repeat)
			}
			if err != nil {
				speed.Error = err.Error()
				break
			}
			r := RowsSpeed{M: m, MS: ms, Ratio: 1, GBs: float64(rows*row) / ms / 1e6,
				GFLOPs: 2 * float64(rows) * cols * float64(m) / ms / 1e6}
			if m > 1 {
				r.Ratio = ms / speed.Rows[0].MS
			}
			speed.Rows = append(speed.Rows, r)
		}
		all = append(all, speed)
	}
	return all
}

// time returns the shortest time of a program in milliseconds.
func (p *workplace) time(record recordFunc, repeat int) (float64, error) {
	b, err := p.build(record)
	if err != nil {
		return 0, err
	}
	defer b.Free()
	program := b.Programs[0]
	if p.timer == nil {
		read := webgpu.Region{Buffer: p.out[0].Buffer, Dst: make([]byte, 4)}
		timer := &tune.Timer{Device: p.dev, Read: read}
		settled := time.Duration(0)
		if !p.dev.Info().Software {
			settled = time.Second
		}
		if err := timer.Begin(program, settled); err != nil {
			return 0, err
		}
		p.timer = timer
	}
	once, err := p.timer.Cost(program, 1, 2) // the first one fills caches
	if err != nil {
		return 0, err
	}
	n, err := p.timer.Repeats(program, once, 20*time.Millisecond)
	if err != nil {
		return 0, err
	}
	took, err := p.timer.Cost(program, n, repeat)
	return float64(took.Nanoseconds()) / 1e6 / float64(n), err
}
