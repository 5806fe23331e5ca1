//go:build !js

package foretoken

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/demo"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/models/safetensors"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// rewritten returns a copy of a source whose change has edited the bytes.
func rewritten(t *testing.T, src files.Source, change func(b []byte)) files.Source {
	t.Helper()
	b := make([]byte, src.Size())
	if _, err := src.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	change(b)
	return files.FromBytes(src.Name(), b)
}

// fill makes every weight of a tensor of n bytes the float32 x.
func fill(b []byte, offset, n int64, x float32) {
	for i := offset; i < offset+n; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], math.Float32bits(x))
	}
}

// withVector sets all weights of a model's F32 tensor.
func withVector(t *testing.T, src files.Source, name string, x float32) files.Source {
	t.Helper()
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Tensor(name)
	if err != nil || info.Type != gguf.F32 {
		t.Fatal(info, err)
	}
	return rewritten(t, src, func(b []byte) { fill(b, info.Offset, info.Size, x) })
}

// floatHead returns a head's file with all weights as F32, after change.
func floatHead(t *testing.T, f *safetensors.File, change func(name string, x []float32)) []byte {
	t.Helper()
	var all []safetensors.Tensor
	for i := range f.Tensors {
		info := &f.Tensors[i]
		n := safetensors.Tensor{Name: info.Name, Dtype: info.Dtype, Shape: info.Shape, Data: make([]byte, info.Size)}
		if err := f.Read(info, n.Data, 0); err != nil {
			t.Fatal(err)
		}
		if n.Dtype == safetensors.F16 {
			x := make([]float32, info.Elements())
			if err := quant.Dequantize(gguf.F16, n.Data, x); err != nil {
				t.Fatal(err)
			}
			change(n.Name, x)
			n.Dtype, n.Data = safetensors.F32, webgpu.F32Bytes(x)
		}
		all = append(all, n)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, nil, all...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestWeightsAreFinite puts a NaN or an infinity into every tensor of a target, a draft and a head, in turn. Each file
// is refused with an error that names the tensor.
func TestWeightsAreFinite(t *testing.T) {
	t.Attr("attack", "NaN or infinity in a tensor of a target, a draft or a head")
	t.Attr("bound", "loading refuses the file and names the tensor and the element")
	dev, tried := kerneltest.CPU(t), 0
	refused := func(name string, target, draft files.Source, o Options) {
		t.Helper()
		tried++
		s, err := Open(context.Background(), dev, target, draft, o)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "not a finite number") {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := func(src files.Source, info *gguf.TensorInfo, odd bool) files.Source {
		return rewritten(t, src, func(b []byte) {
			last := b[info.Offset+info.Size-int64(info.Type.BlockBytes()):] // the last block
			switch {
			case info.Type != gguf.F32:
				binary.LittleEndian.PutUint16(last, 0x7e00)
			case odd:
				binary.LittleEndian.PutUint32(last, 0xff800000)
			default:
				binary.LittleEndian.PutUint32(last, 0x7fc00001)
			}
		})
	}
	for role, src := range map[string]files.Source{"target": demo.Target(), "draft": demo.Draft()} {
		f, err := gguf.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Tensors {
			target, draft := broken(src, &f.Tensors[i], i%2 == 1), files.Source(nil)
			if role == "draft" {
				target, draft = demo.Target(), target
			}
			refused(f.Tensors[i].Name, target, draft, Options{Context: 64})
		}
	}
	weights, config := demo.Head()
	head, err := safetensors.Open(weights)
	if err != nil {
		t.Fatal(err)
	}
	for i := range head.Tensors {
		info := &head.Tensors[i]
		if info.Dtype != safetensors.F16 {
			continue
		}
		o := Options{Context: 64, EAGLE3Config: config}
		o.EAGLE3 = rewritten(t, weights, func(b []byte) {
			binary.LittleEndian.PutUint16(b[info.Offset+info.Size-2:], 0xfc00)
		})
		refused(info.Name, demo.Target(), demo.Draft(), o)
		o.EAGLE3 = files.FromBytes("head.safetensors", floatHead(t, head, func(name string, x []float32) {
			if name == info.Name {
				x[len(x)/2] = float32(math.NaN())
			}
		}))
		refused(info.Name, demo.Target(), demo.Draft(), o)
	}
	t.Attr("measured", fmt.Sprintf("%d files refused", tried))
}

// huge is finite, but products with it are not.
const huge = 3e38

// TestLogitsThatOverflow decodes by every method with a target, a draft or a head whose weights are finite and whose
// logits are not. Every request fails with an error that says so, and no token comes out; plain decoding is not held
// up by a draft.
func TestLogitsThatOverflow(t *testing.T) {
	t.Attr("attack", "finite weights whose logits overflow, in a target, a draft or a head")
	t.Attr("bound",
		"the request ends with an error that names the position; no token comes of such logits, by any method")
	ended := 0
	background := context.Background()
	brokenTarget := withVector(t, demo.Target(), "output_norm.weight", huge)
	brokenDraft := withVector(t, demo.Draft(), "output_norm.weight", huge)
	weights, config := demo.Head()
	head, err := safetensors.Open(weights)
	if err != nil {
		t.Fatal(err)
	}
	brokenHead := files.FromBytes("head.safetensors", floatHead(t, head, func(name string, x []float32) {
		if name == "norm.weight" {
			for i := range x {
				x[i] = huge
			}
		}
	}))
	for _, kind := range deviceKinds {
		for name, c := range map[string]struct {
			target, draft, head files.Source
			want                string
		}{
			"target": {brokenTarget, demo.Draft(), nil, "the target's logits after position"},
			"draft":  {demo.Target(), brokenDraft, nil, "the draft's logits after position"},
			"head":   {demo.Target(), demo.Draft(), brokenHead, "the draft's logits after position"},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				o := Options{Context: 64}
				if c.head != nil {
					o.EAGLE3, o.EAGLE3Config = c.head, config
				}
				s := opened(t, kind, c.target, c.draft, o)
				for _, r := range overflowing(s, name) {
					for _, temperature := range []float64{0, 0.8} {
						if r.Temperature = temperature; r.Validate() != nil {
							continue
						}
						if r.MaxTokens = 4; r.Policy == method.DrafterNone && name == "target" {
							r.LogProbs = true
						}
						ended++
						got, err := s.Generate(background, "func main() {\n\tx := 1\n\tx := 1\n", r, nil)
						if err == nil || !strings.Contains(err.Error(), c.want) ||
							!strings.Contains(err.Error(), "not finite") {
							t.Errorf("%s %s %s at %g: %+v, %v", r.Policy, r.Adapt, r.Verifier, temperature, got, err)
						}
					}
				}
				plain, err := s.Generate(background, "func", Request{Policy: method.DrafterNone, MaxTokens: 2}, nil)
				if name != "target" && (err != nil || len(plain.TokenIDs) != 2) {
					t.Errorf("plain decoding: %+v, %v", plain, err)
				}
			})
		}
	}
	t.Attr("measured", fmt.Sprintf("%d requests on %d kinds of devices ended so", ended, len(deviceKinds)))
}

// overflowing are the requests of TestLogitsThatOverflow.
func overflowing(s *Session, broken string) (all []Request) {
	for _, m := range method.All() {
		uses := m.Config.UsesDraftModel()
		switch {
		case m.Config.Adapt == method.AdaptHetero, m.Config.Adapt == method.AdaptC2T,
			m.Config.Adapt == method.AdaptAcceptance: // they need calibrations of these files
			continue
		case m.Config.Source == method.SourceEAGLE3 && broken != "head", broken == "head" && m.Name != "eagle3",
			broken == "draft" && (!uses || m.Name == method.DrafterAuto):
			continue
		}
		all = append(all, Request{Policy: m.Name})
	}
	if broken != "head" {
		all = append(all, Request{Policy: method.DrafterChain, Verifier: method.VerifierRejection},
			Request{Policy: method.DrafterEAGLE2, Verifier: method.VerifierMARS,
				Settings: method.Settings{Mode: method.MARSSampled}})
	}
	return all
}
