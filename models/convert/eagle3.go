package convert

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/models/safetensors"
)

// The tensors of a head's vocabulary, as published.
const (
	draftToTarget = "d2t" // (draft vocabulary): target id minus draft id
	targetToDraft = "t2d" // (vocabulary): whether the head proposes the id
)

var headTypes = map[string]gguf.Type{"q8_0": gguf.Q8_0, "q4_k": gguf.Q4_K}

// HeadTypes lists the types that QuantiseHead stores matrices in.
func HeadTypes() []string {
	return slices.SortedFunc(maps.Keys(headTypes), func(a, b string) int {
		return int(headTypes[a]) - int(headTypes[b])
	})
}

// Head gives an EAGLE-3 head as one GGUF file: a head in GGUF as it is, for which config is not read, and one published
// as a safetensors file and a config.json converted. As with Open, its tensors are computed from the sources as they
// are read. Its errors name the file and the field or tensor.
func Head(src, config files.Source) (*gguf.File, error) {
	if IsGGUF(src) {
		return gguf.Open(src)
	}
	m, origins, err := fromPublished(src, config)
	if err != nil {
		return nil, err
	}
	return m.open(origins)
}

// open returns the file, whose tensors have other names in the file that they are computed from.
func (m *model) open(origins map[string]string) (*gguf.File, error) {
	src, err := m.source()
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(src)
	if err == nil {
		f.Origins = origins
	}
	return f, err
}

// IsGGUF reports whether a source begins as a GGUF file does.
func IsGGUF(src files.Source) bool {
	magic := make([]byte, 4)
	return files.ReadFull(src, magic, 0) == nil && string(magic) == "GGUF"
}

// fromPublished returns a published head, and the names of its tensors in the safetensors file.
func fromPublished(src, config files.Source) (*model, map[string]string, error) {
	if config == nil {
		return nil, nil, fmt.Errorf("convert: %s: the head needs the config.json that was published with it; a head "+
			"in GGUF needs none", src.Name())
	}
	raw, err := readSource(config, maxConfig)
	if err != nil {
		return nil, nil, err
	}
	s, err := readHead(config.Name(), raw)
	if err != nil {
		return nil, nil, err
	}
	f, err := safetensors.Open(src)
	if err != nil {
		return nil, nil, err
	}
	if f.Has(numberedBlock + "input_layernorm.weight") {
		s.block = numberedBlock
	}
	m := &model{name: src.Name(), kv: []gguf.KV{{Key: "general.architecture", Value: s.Architecture}}}
	m.kv = append(m.kv, s.kv...)
	if err := m.addTargets(f, s); err != nil {
		return nil, nil, err
	}
	given := append(slices.Clone(m.tensors), placeholder("output.weight", 1)) // addWeights refuses a file without one
	if f.Has("embed_tokens.weight") {
		given = append(given, placeholder("token_embd.weight", 1))
	}
	described, err := s.describe(src.Name(), given, arch.ReadHead)
	if err != nil {
		return nil, nil, err
	}
	if err := checkMask(f, described); err != nil {
		return nil, nil, err
	}
	origins := map[string]string{}
	for w := range described.Tensors() {
		origins[w.GGUF] = s.published(w.HF)
	}
	return m, origins, m.addWeights(f, s, described)
}

// QuantiseHead stores the matrices of a head in one of HeadTypes; with "" it returns the head as it is. A matrix whose
// rows are not whole blocks of q4_k becomes q8_0, and one whose rows are not whole blocks of that stays as it is.
func QuantiseHead(f *gguf.File, quantise string) (*gguf.File, error) {
	to, ok := headTypes[strings.ToLower(quantise)]
	switch {
	case quantise == "":
		return f, nil
	case !ok:
		return nil, fmt.Errorf("convert: a head cannot be stored as %s: want %s", quote.Text(quantise),
			strings.Join(HeadTypes(), " or "))
	}
	head, err := arch.ReadHead(f)
	if err != nil {
		return nil, err
	}
	cols := map[string]uint64{} // of the parts of a matrix that are loaded
	for w := range head.Tensors() {
		if len(w.Shape) == 2 {
			cols[w.GGUF] = uint64(w.Cols)
		}
	}
	m := fromGGUF(f)
	for i := range m.tensors {
		t, want := &m.tensors[i], to
		n := cols[t.name]
		if n%want.BlockSize() != 0 {
			want = gguf.Q8_0
		}
		if n == 0 || n%want.BlockSize() != 0 {
			continue
		}
		if !quant.Decodes(t.typ) {
			return nil, fmt.Errorf("convert: %s: tensor %s is %s, which cannot be decoded", m.name, quote.Text(t.name),
				t.typ)
		}
		t.store(want, 0)
	}
	return m.open(f.Origins)
}

// The prefixes of the names of a head's one layer: by its authors and SGLang's trainers, and by speculators.
const (
	namedBlock    = "midlayer."
	numberedBlock = "layers.0."
)

// published returns the name that the file has for a tensor.
func (s *hparams) published(name string) string {
	if rest, ok := strings.CutPrefix(name, namedBlock); ok && s.block != "" {
		return s.block + rest
	}
	return name
}

// headClasses are the names that config.json's architectures give to heads, and whether the fields of the layer are in
// an object of their own, as the library speculators has them.
var headClasses = map[string]bool{"LlamaForCausalLMEagle3": false, "Eagle3LlamaForCausalLM": false,
	"Eagle3Speculator": true, "Eagle3DraftModel": true}

// readHead reads a head's config.json.
func readHead(name string, raw []byte) (*hparams, error) {
	s, err := readFields(name, raw, func(s *hparams) {
		s.modelType, s.Checkpoint = "eagle3", arch.HeadCheckpoint
		const other = "LlamaForCausalLM" // in older files
		class := s.class()
		nested, ok := headClasses[class]
		if !ok && (class != other || !s.has("draft_vocab_size")) {
			s.fail("architectures", "is %s; %s can be run", s.text("architectures"),
				strings.Join(slices.Sorted(maps.Keys(headClasses)), ", "))
		}
		if nested {
			s.unnest()
		}
	})
	if err != nil {
		return nil, err
	}
	s.add("rope.half_split", true)
	if s.has("target_hidden_size") {
		s.add("target_hidden_size", uint32(s.count("target_hidden_size", 1<<16)))
	}
	s.proposed = s.vocab
	if s.has("draft_vocab_size") {
		s.proposed = s.count("draft_vocab_size", s.vocab)
	}
	if s.layers != 1 {
		s.fail("num_hidden_layers", "is %d; heads of one layer can be run", s.layers)
	}
	in := &fields{name: name, within: "eagle_config."}
	if s.has("eagle_config") && strictjson.DecodeForeign(s.values["eagle_config"], &in.values) != nil {
		s.fail("eagle_config", "is %s: want an object", s.text("eagle_config"))
	}
	for _, norm := range headNorms {
		if s.flag(norm) || in.flag(norm) {
			s.add(norm, true)
		}
	}
	s.readTaps(in)
	if s.err == nil {
		s.err = in.err
	}
	return s, s.err
}

const (
	layerConfig  = "transformer_layer_config" // of speculators: the fields that other files have at the top
	tappedLayers = "eagle_aux_hidden_state_layer_ids"
	normedSkip   = "norm_before_residual"
)

// headNorms are fields that have the same names in GGUF; norm_output is this project's.
var headNorms = []string{normedSkip, "norm_before_fc", "norm_output"}

// unnest moves the fields of the layer to the top, where those of the head win.
func (s *hparams) unnest() {
	const kind = "speculators_model_type"
	if s.has(kind) && s.word(kind) != "eagle3" {
		s.fail(kind, "is %s: only eagle3 can be run", s.text(kind))
	}
	if !s.has(normedSkip) {
		s.fail(normedSkip, "is missing: libraries differ in what they assume; take the value that the head was "+
			"trained with")
	}
	nested := &fields{name: s.name, within: layerConfig + "."}
	if !s.has(layerConfig) || strictjson.DecodeForeign(s.values[layerConfig], &nested.values) != nil {
		s.fail(layerConfig, "is missing or no object: it describes the head's layer")
	}
	for _, key := range slices.Sorted(maps.Keys(nested.values)) {
		if !s.has(key) {
			s.values[key] = nested.values[key]
		} else if (read[key] || key == "vocab_size") && nested.has(key) && nested.text(key) != s.text(key) {
			nested.fail(key, "is %s, but %s outside", nested.text(key), s.text(key))
		}
	}
	if s.err == nil {
		s.err = nested.err
	}
}

// nestedFlags are fields of eagle_config and the values that heads which can be run have.
var nestedFlags = map[string]bool{"use_aux_hidden_state": true, "use_input_layernorm_in_first_layer": true,
	"use_last_layernorm": true, "use_mtp_layernorm": false}

// readTaps reads which of the target's layers a head reads. At the top config.json numbers the layers whose inputs they
// are, as GGUF does; within eagle_config those whose outputs they are.
func (s *hparams) readTaps(in *fields) {
	for _, key := range slices.Sorted(maps.Keys(nestedFlags)) {
		if in.has(key) && in.flag(key) != nestedFlags[key] {
			in.fail(key, "is %s; only heads over three of the target's layers, with the usual norms, can be run",
				in.text(key))
		}
	}
	known := func(key string) bool {
		_, flag := nestedFlags[key]
		return flag || key == tappedLayers || slices.Contains(headNorms, key) // bound: 3 names
	}
	if key := safetensors.UnknownField(in.values, known); key != "" {
		in.fail(key, "is %s: the field is not known, and ignoring it might change the drafts", in.text(key))
	}
	inputs, outputs := s.tapped(), in.tapped()
	switch {
	case inputs != nil && outputs != nil:
		in.fail(tappedLayers, "is %v, and the field is at the top of the file too: take one of them out", outputs)
	case inputs != nil:
		s.add("target_layers", inputs)
	case outputs != nil:
		s.add("target_outputs", outputs)
	}
}

// tapped reads a list of the target's layers; nil where there is none.
func (c *fields) tapped() (layers []int32) {
	if !c.has(tappedLayers) {
		return nil
	}
	if strictjson.DecodeForeign(c.values[tappedLayers], &layers) != nil || len(layers) != arch.Taps && len(layers) > 0 {
		c.fail(tappedLayers, "is %s: want %d layers", c.text(tappedLayers), arch.Taps)
	}
	if len(layers) == 0 {
		return nil
	}
	return layers
}

// addTargets adds the target's ids of the tokens that a head proposes.
func (m *model) addTargets(f *safetensors.File, s *hparams) error {
	switch {
	case !f.Has(draftToTarget) && s.proposed != s.vocab:
		return fmt.Errorf("convert: %s: tensor d2t is missing; without it draft_vocab_size, %d, must be vocab_size, %d",
			f.Name(), s.proposed, s.vocab)
	case !f.Has(draftToTarget):
		return nil
	}
	t, err := f.Tensor(draftToTarget, uint64(s.proposed))
	if err != nil {
		return err
	}
	offsets, err := f.Ints(t)
	if err != nil {
		return err
	}
	var ids []byte
	for i, o := range offsets {
		ids = binary.LittleEndian.AppendUint64(ids, uint64(int64(i)+o))
	}
	m.tensors = append(m.tensors, tensor{draftToTarget, []uint64{uint64(s.proposed)}, gguf.I64, memory(ids)})
	return nil
}

// checkMask compares the ids that a head proposes with t2d.
func checkMask(f *safetensors.File, head *arch.Model) error {
	if !f.Has(targetToDraft) {
		return nil
	}
	t, err := f.Tensor(targetToDraft, uint64(head.Vocab))
	if err != nil {
		return err
	}
	mask, err := f.Bools(t)
	if err != nil {
		return err
	}
	used := make([]bool, head.Vocab)
	for _, id := range head.Features.Targets {
		used[id] = true
	}
	for id := range mask {
		if mask[id] != used[id] {
			return fmt.Errorf("convert: %s: tensors d2t and t2d disagree on token %d", f.Name(), id)
		}
	}
	return nil
}
