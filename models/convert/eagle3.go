package convert

import (
	"encoding/binary"
	"fmt"

	"foretoken/internal/files"
	"foretoken/internal/strictjson"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// The tensors of a head's vocabulary, as published.
const (
	draftToTarget = "d2t" // (draft vocabulary): target id minus draft id
	targetToDraft = "t2d" // (vocabulary): whether the head proposes the id
)

// Head gives an EAGLE-3 head, published as a safetensors file and a config.json, as one GGUF file. As with Open, its
// tensors are computed from the sources as they are read. Its errors name the file and the field or tensor.
func Head(src, config files.Source) (*gguf.File, error) {
	raw, err := readSource(config, maxConfig)
	if err != nil {
		return nil, err
	}
	s, err := readHead(config.Name(), raw)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(src)
	if err != nil {
		return nil, err
	}
	m := &model{name: src.Name(), kv: []gguf.KV{{Key: "general.architecture", Value: s.Architecture}}}
	m.kv = append(m.kv, s.kv...)
	if err := m.addTargets(f, s); err != nil {
		return nil, err
	}
	given := m.tensors
	if f.Has("embed_tokens.weight") {
		given = append(given, placeholder("token_embd.weight", 1))
	}
	described, err := s.describe(src.Name(), given, arch.ReadHead)
	if err != nil {
		return nil, err
	}
	if err := checkMask(f, described); err != nil {
		return nil, err
	}
	if err := m.addWeights(f, s, described); err != nil {
		return nil, err
	}
	for i := range m.tensors {
		if t := &m.tensors[i]; t.typ == gguf.BF16 {
			t.store(gguf.F32) // exact
		}
	}
	virtual, err := m.source()
	if err != nil {
		return nil, err
	}
	file, err := gguf.Open(virtual)
	if err != nil {
		return nil, err
	}
	file.Origins = map[string]string{}
	for w := range described.Tensors() {
		file.Origins[w.GGUF] = w.HF
	}
	return file, nil
}

// readHead reads a head's config.json.
func readHead(name string, raw []byte) (*hparams, error) {
	s, err := readFields(name, raw, func(s *hparams) {
		s.modelType, s.Checkpoint = "eagle3", arch.HeadCheckpoint
		const other = "LlamaForCausalLM" // in older files
		if class := s.class(); class != s.Class && (class != other || !s.has("draft_vocab_size")) {
			s.fail("architectures", "is %s; only %s can be run", s.text("architectures"), s.Class)
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
	if s.has("eagle_config") {
		in := &fields{name: name, within: "eagle_config."}
		if strictjson.DecodeForeign(s.values["eagle_config"], &in.values) != nil {
			s.fail("eagle_config", "is %s: want an object", s.text("eagle_config"))
		}
		s.readTaps(in)
	}
	return s, s.err
}

// readTaps reads which of the target's layers a head reads: config.json counts their outputs, GGUF their inputs.
func (s *hparams) readTaps(in *fields) {
	const ids, aux = "eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state"
	if in.has(aux) && !in.flag(aux) {
		in.fail(aux, "is false; only heads over three of the target's layers can be run")
	}
	if in.has(ids) {
		var layers []int32
		if strictjson.DecodeForeign(in.values[ids], &layers) != nil || len(layers) != arch.Taps {
			in.fail(ids, "is %s: want %d layers", in.text(ids), arch.Taps)
		}
		for i := range layers {
			layers[i]++
		}
		s.add("target_layers", layers)
	}
	if s.err == nil {
		s.err = in.err
	}
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
