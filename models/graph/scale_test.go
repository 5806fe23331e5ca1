package graph

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/webgpu"

	"github.com/x448/float16"
)

// TestFactorsOfBlocks: a factor of two gives the words of blocks whose halves are doubled, floats are doubled, and
// types whose halves stay halves on the device are refused.
func TestFactorsOfBlocks(t *testing.T) {
	raw, err := gguf.Bytes(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("scaled.gguf", raw))
	if err != nil {
		t.Fatal(err)
	}
	l := &loader{file: f, loading: loading{graph: &Graph{Arch: &arch.Model{Scales: map[string]float64{"w": 2}}}}}
	taken := 0
	for _, typ := range storedTypes() {
		info := &gguf.TensorInfo{Name: "w", Type: typ, Dims: []uint64{256, 3}}
		format, err := l.formatOf(info)
		if err != nil {
			if !strings.Contains(err.Error(), "has a factor") {
				t.Error(err)
			}
			continue
		}
		taken++
		rng := rand.New(rand.NewPCG(1, uint64(typ)))
		block := make([]byte, 3*256/int(typ.BlockSize())*int(typ.BlockBytes()))
		for i := range block {
			block[i] = byte(rng.Uint32())
		}
		if !blockLayouts[typ].format.Quantised() {
			values := make([]float32, 3*256)
			for i := range values {
				values[i] = float32(rng.NormFloat64())
			}
			if err := quant.Quantize(typ, values, block); err != nil {
				t.Fatal(err)
			}
			if err := l.repack(format, info, block); err != nil {
				t.Fatal(err)
			}
			if err := quant.Dequantize(typ, block, values); err != nil {
				t.Fatal(err)
			}
			for i := range values {
				values[i] *= 2
			}
			if !slices.Equal(webgpu.Memory(l.quants).F32(), values) {
				t.Errorf("%s: the weights are not doubled", typ)
			}
			continue
		}
		doubled := slices.Clone(block)
		for at := 0; at < len(block); at += int(typ.BlockBytes()) {
			first, halves := quant.Scales(typ)
			for half := first; half < first+2*halves; half += 2 {
				x := float32(rng.NormFloat64())
				binary.LittleEndian.PutUint16(block[at+half:], float16.Fromfloat32(x).Bits())
				binary.LittleEndian.PutUint16(doubled[at+half:], float16.Fromfloat32(2*x).Bits())
			}
		}
		if err := l.repack(format, info, block); err != nil {
			t.Fatal(err)
		}
		if quants, scales := repack(typ, doubled, nil, nil); !slices.Equal(l.quants, quants) ||
			!slices.Equal(l.scales, scales) {
			t.Errorf("%s: the words differ from those of doubled halves", typ)
		}
	}
	if taken < 17 {
		t.Errorf("%d types take a factor", taken)
	}
}
