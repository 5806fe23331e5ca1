package bench

import (
	"fmt"
	"math"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/sample"
	"foretoken/webgpu/simd"
)

// doctorCheck compares a trial with its references.
type doctorCheck struct {
	name    string
	allowed float64 // part of the largest result
	trial   *trial
	exact   []int // words of the result that are integers and must be equal
}

// doctorChecks returns the checks of a device: a product of every format, attention over every cache, and sampling.
func doctorChecks(info webgpu.Info) []doctorCheck {
	var all []doctorCheck
	for format := range kernels.Formats {
		families := doctorFamilies(info, format)
		for i, f := range families {
			// Formats differ in unpacking alone, so one of them tries every family.
			if i < len(families)-1 && format != kernels.Q8_0 && f.Kind == families[i+1].Kind {
				continue
			}
			for _, m := range []int{1, 5} {
				t, record := productTrial(format, 64, 512, m)
				t.record = record(f, m)
				all = append(all, doctorCheck{name: fmt.Sprintf("product %v %v, rows of x: %d", format, f, m),
					allowed: 1e-3, trial: t})
			}
		}
	}
	for _, h := range []kernels.Heads{{Dim: 64, Format: kernels.KVF32}, {Dim: 64, Format: kernels.KVF16},
		{Dim: 64, Format: kernels.KVQ8}, {Dim: 80, Format: kernels.KVF32}} { // a power of two, and none
		h.Query, h.KV, h.Rotary = 3, 3, h.Dim
		all = append(all, doctorCheck{name: fmt.Sprintf("attention %v, heads of %d", h.Format, h.Dim), allowed: 1e-3,
			trial: attentionTrial(h)})
	}
	ways := kernels.Ways(info)
	return append(all, sampleCheck(ways[len(ways)-1]))
}

// run compares the device with the references.
func (c *doctorCheck) run(dev webgpu.Device) KernelCheck {
	k := KernelCheck{Kernel: c.name, Allowed: c.allowed}
	want, err := c.wanted()
	if err == nil {
		var got webgpu.Memory
		if got, err = c.trial.result(dev); err == nil {
			k.Worst = difference(got, want, c.exact)
			k.OK = k.Worst <= c.allowed
		}
	}
	if err != nil {
		k.Error = err.Error()
	}
	return k
}

// wanted returns the result of the references.
func (c *doctorCheck) wanted() (webgpu.Memory, error) {
	ref, err := simd.Open(simd.Options{Form: simd.Reference})
	if err != nil {
		return nil, err
	}
	defer ref.Destroy()
	return c.trial.result(ref)
}

// difference returns the largest difference of floats as a part of the largest wanted float, and 1 where integers
// differ or a number is none.
func difference(got, want webgpu.Memory, exact []int) float64 {
	largest, worst := 1e-30, 0.0
	for i, x := range want.F32() {
		y := float64(got.F32()[i])
		switch {
		case slices.Contains(exact, i):
			if got[i] != want[i] {
				return 1
			}
		case math.IsNaN(y) || math.IsInf(y, 0):
			return 1
		default:
			largest, worst = max(largest, math.Abs(float64(x))), max(worst, math.Abs(y-float64(x)))
		}
	}
	return min(worst/largest, 1)
}

// attentionTrial attends to positions in several blocks of a cache in which no slot is in its place.
func attentionTrial(h kernels.Heads) *trial {
	const context, m = 300, 5
	l := h.Layout()
	table := make([]uint32, context)
	for i := range table {
		table[i] = uint32(i * 7 % context)
	}
	cache := func(seed uint32) []uint32 {
		words := noise(seed, h.CacheWords(context))
		for i := range words {
			switch {
			case h.Format != kernels.KVQ8:
				words[i] &= 0xbfffbfff
			case i%l.Slot() < l.Scales():
				words[i] = 0x3c003c00 // of bytes
			}
		}
		return words
	}
	var rows []uint32
	for i := range m { // position, slot, shared, identity prefix
		position := uint32(context - 1 - 61*i)
		rows = append(rows, position, 0, position+1, 0)
	}
	size := max(1, attention.Scratch(h, context, context)) * m
	return &trial{inputs: []input{full(rows), full(table), full(make([]uint32, m)),
		full(floats(noise(3, m*h.Width()))), full(cache(4)), full(cache(5))},
		outputs: []int{m * h.Query * h.Dim, size},
		record: func(r *kernels.Recorder, in, out []kernels.View) {
			s := kernels.Slots{Rows: in[0], Table: in[1], Ancestors: in[2], Stride: 1}
			attention.Record(r, h, s, in[3], in[4], in[5], out[1], out[0], m, context)
		}}
}

// sampleCheck draws tokens and takes the best ones.
func sampleCheck(lanes kernels.Lanes) doctorCheck {
	const rows, vocab, k = 3, 5003, 4
	draw := kernels.DrawParams{Temperature: 0.8, Seed: 7}.Words()
	record := kernels.SampleWords(k)
	logits := floats(noise(6, rows*vocab))
	for i, w := range logits {
		logits[i] = math.Float32bits(8 * math.Float32frombits(w))
	}
	c := doctorCheck{name: "sampling", allowed: 1e-3, trial: &trial{
		inputs:  []input{full(logits), full(draw[:]), full([]uint32{3, 4, 5})},
		outputs: []int{rows * record, sample.Scratch(rows, vocab) / 4},
		record: func(r *kernels.Recorder, in, out []kernels.View) {
			sample.Record(r, lanes, kernels.Logits{View: in[0], Rows: rows, Vocab: vocab}, k, sample.RawLogits,
				in[1], in[2], out[1], out[0])
		}}}
	for row := range rows {
		c.exact = append(c.exact, row*record, row*record+1)
		for i := range k {
			c.exact = append(c.exact, row*record+4+i)
		}
	}
	return c
}
