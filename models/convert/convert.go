// Package convert makes one GGUF file of a published model: of the parts of a split GGUF file, or of safetensors with
// their config.json and tokenizer.json. It can store the weights in another type on the way.
//
// The result is a source whose bytes are worked out as they are read: the header is kept, tensor data is
// computed from the ranges of the inputs that it comes from, one megabyte at a time. So a model loads from such a
// source as from a file, and writing it to disk is copying it. Nothing of a model is held in memory.
//
// Inputs may come from anywhere. What does not fit together, is missing or would change the model's numbers without
// being understood is refused; errors are one line, start with "convert:" (or the package that reads the input) and
// name the file, the field, the reason and what to do about it.
package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/models/quant"
)

// Options say how a model is to be given.
type Options struct {
	// Quantise is the storage type of matrices: "f32", "f16", "bf16", "q8_0", "q4_0", or empty for the type in the
	// file. Vectors are 32-bit floats, except in GGUF files that are not changed. With q4_0 the output matrix
	// becomes q8_0. A matrix whose row length is no multiple of 32 becomes f16 instead of a quantised type. Types that
	// no kernel reads can be run this way.
	Quantise string
	// Name replaces the model's name, by default its folder's. It does not change the name in a GGUF file.
	Name string
	// Note receives a sentence for each deviation from the request. It may be nil.
	Note func(message string)
}

func (o *Options) note(format string, args ...any) {
	if o.Note != nil {
		o.Note(fmt.Sprintf(format, args...))
	}
}

// Types lists the values of Options.Quantise except the empty one.
func Types() []string { return []string{"f32", "f16", "bf16", "q8_0", "q4_0"} }

// storage is the type that Options.Quantise names; ok is false for none.
func (o *Options) storage() (t gguf.Type, ok bool, err error) {
	if o.Quantise == "" {
		return 0, false, nil
	}
	for t := range fileTypes {
		if strings.EqualFold(t.String(), o.Quantise) {
			return t, true, nil
		}
	}
	return 0, false, fmt.Errorf("convert: the type %s is not known: want %s, or none for the model's own",
		quote.Text(o.Quantise), strings.Join(Types(), ", "))
}

// Open gives the model in the sources as one GGUF file. By their base names, the sources are one GGUF file, which
// is returned as it is unless another type is asked for; all parts of a split one, in any order; or the files of a
// safetensors checkpoint, of which config.json, tokenizer.json and the weights with their index are needed,
// tokenizer_config.json, generation_config.json and chat_template.jinja are read where they are there, and others
// are ignored. The sources must stay open as long as the result is read.
func Open(sources []files.Source, o Options) (files.Source, error) {
	to, retype, err := o.storage()
	if err != nil {
		return nil, err
	}
	var ggufs, weights []files.Source
	for _, src := range sources {
		switch name := baseName(src.Name()); {
		case strings.HasSuffix(name, ".gguf"):
			ggufs = append(ggufs, src)
		case strings.HasSuffix(name, ".safetensors") || name == indexName:
			weights = append(weights, src)
		}
	}
	if len(ggufs) == 0 && len(weights) == 0 && len(sources) == 1 &&
		!strings.HasSuffix(baseName(sources[0].Name()), ".json") {
		ggufs = sources // gguf.Open reports the error, whatever the file's name
	}
	var m *model
	switch {
	case len(sources) == 0:
		return nil, errors.New("convert: no files: name a .gguf file or the files of a safetensors checkpoint")
	case len(ggufs) > 0 && len(weights) > 0:
		return nil, fmt.Errorf("convert: both %s and %s are given: choose one model", ggufs[0].Name(),
			weights[0].Name())
	case len(weights) > 0:
		m, err = fromCheckpoint(sources, &o)
	case len(ggufs) == 0:
		return nil, fmt.Errorf("convert: %s: there are no weights beside it: want a .gguf file, model.safetensors, "+
			"or %s with the files it names", sources[0].Name(), indexName)
	case len(ggufs) > 1 || isPart(ggufs[0]):
		m, err = joinParts(ggufs)
	case !retype:
		return ggufs[0], nil
	default:
		var f *gguf.File
		if f, err = gguf.Open(ggufs[0]); err == nil {
			m, err = fromGGUF(f), CheckWhole(f)
		}
	}
	if err != nil {
		return nil, err
	}
	if retype {
		if err := m.retype(to, &o); err != nil {
			return nil, err
		}
	}
	return m.source()
}

// model describes a GGUF file to be written: its header and the sources of its tensors.
type model struct {
	name    string // for messages
	kv      []gguf.KV
	tensors []tensor
}

type tensor struct {
	name string
	dims []uint64 // GGUF's order: the length of a row first
	typ  gguf.Type
	data ranged
}

// ranged fills p with the stored bytes of one tensor from byte off of it. It may be called from several goroutines at
// once.
type ranged func(p []byte, off int64) error

func (m *model) set(key string, value any) {
	if i := m.index(key); i >= 0 {
		m.kv[i].Value = value
		return
	}
	m.kv = append(m.kv, gguf.KV{Key: key, Value: value})
}

func (m *model) has(key string) bool { return m.index(key) >= 0 }

func (m *model) index(key string) int {
	return slices.IndexFunc(m.kv, func(e gguf.KV) bool { return e.Key == key }) // bound: a checkpoint has 200 keys
}

// fromGGUF takes a GGUF file's tensors as they are.
func fromGGUF(f *gguf.File) *model {
	m := &model{name: f.Name(), kv: f.Metadata()}
	m.add(f)
	return m
}

func (m *model) add(f *gguf.File) {
	for i := range f.Tensors {
		t := &f.Tensors[i]
		m.tensors = append(m.tensors, tensor{t.Name, t.Dims, t.Type, func(p []byte, off int64) error {
			return f.ReadTensor(t, p, off)
		}})
	}
}

// fileTypes are the values of general.file_type, in ggml's numbering, of the types that weights can be stored in.
var fileTypes = map[gguf.Type]uint32{gguf.F32: 0, gguf.F16: 1, gguf.Q4_0: 2, gguf.Q8_0: 7, gguf.BF16: 32}

// retype stores the matrices as the type asked for.
func (m *model) retype(to gguf.Type, o *Options) error {
	scales, err := m.takeScales()
	if err != nil {
		return err
	}
	// tied: the embedding is the output matrix.
	tied := !slices.ContainsFunc(m.tensors, // bound: once a file
		func(t tensor) bool { return t.name == "output.weight" })
	var odd, again, types []string
	for i := range m.tensors {
		t := &m.tensors[i]
		want := to
		switch {
		case len(t.dims) < 2:
			want = gguf.F32
		case to == gguf.Q4_0 && (t.name == "output.weight" || tied && t.name == "token_embd.weight"):
			want = gguf.Q8_0 // the logits' own precision is worth its bytes
		}
		if want.BlockSize() > 1 && t.dims[0]%want.BlockSize() != 0 {
			want = gguf.F16
			odd = append(odd, t.name)
		}
		if want == t.typ {
			continue
		}
		if !quant.Decodes(t.typ) {
			return fmt.Errorf("convert: %s: tensor %s is %s, which cannot be decoded: take a file in another type, "+
				"or leave this one as it is", m.name, quote.Text(t.name), t.typ)
		}
		if t.typ.BlockSize() > 1 && len(t.dims) > 1 {
			again = append(again, t.name)
			if name := t.typ.String(); !slices.Contains(types, name) { // bound: there are forty types
				types = append(types, name)
			}
		}
		t.store(want, scales[t.name])
	}
	if len(odd) > 0 {
		o.note("%s: rows are no multiple of 32, stored as f16: %s", m.name, list(odd))
	}
	if len(again) > 0 && to.BlockSize() > 1 {
		o.note("%s: %s quantised before, in %s: quantising the original loses less", m.name,
			are(len(again), len(m.tensors)), list(types))
	}
	m.set("general.file_type", fileTypes[to])
	m.set("general.quantization_version", uint32(2))
	return nil
}

// takeScales removes the second scales of matrices in NVFP4, whose blocks have scales of eight bits, and returns them
// by the matrix's name. It also removes the scales of such matrices' inputs, which devices need that compute in NVFP4.
func (m *model) takeScales() (map[string]float32, error) {
	scales, removed := map[string]float32{}, map[string]bool{}
	for _, t := range m.tensors {
		if base, ok := strings.CutSuffix(t.name, ".weight"); ok && t.typ == gguf.NVFP4 {
			removed[base+".scale"], removed[base+".input_scale"] = true, true
		}
	}
	for _, t := range m.tensors {
		base, ok := strings.CutSuffix(t.name, ".scale")
		if !ok || !removed[t.name] {
			continue
		}
		var b [4]byte
		if t.typ != gguf.F32 || !slices.Equal(t.dims, []uint64{1}) {
			return nil, fmt.Errorf("convert: %s: tensor %s is %s of %v, want one F32", m.name, quote.Text(t.name),
				t.typ, t.dims)
		} else if err := t.data(b[:], 0); err != nil {
			return nil, err
		}
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[:]))
		if x-x != 0 || x == 0 {
			return nil, fmt.Errorf("convert: %s: tensor %s is %g, want a finite factor", m.name, quote.Text(t.name), x)
		}
		scales[base+".weight"] = x
	}
	m.tensors = slices.DeleteFunc(m.tensors, func(t tensor) bool { return removed[t.name] })
	return scales, nil
}

func are(n, of int) string {
	if n == 1 {
		return fmt.Sprintf("1 of %d tensors was", of)
	}
	return fmt.Sprintf("%d of %d tensors were", n, of)
}

// list names a few and counts the others.
func list(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// baseName is the last element of a path or of a URL.
func baseName(name string) string {
	if strings.Contains(name, "://") {
		name, _, _ = strings.Cut(name, "#")
		name, _, _ = strings.Cut(name, "?")
	}
	return path.Base(strings.ReplaceAll(name, `\`, "/"))
}

// folder is a path or URL without its last element, empty where it has one only.
func folder(name string) string {
	base := baseName(name)
	if i := strings.LastIndex(name, base); i > 0 {
		return name[:i-1]
	}
	return ""
}
