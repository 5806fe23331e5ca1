package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
	"foretoken/models/tokenizer"
)

// indexName is the file that says which weights are in which file.
const indexName = "model.safetensors.index.json"

// Bounds in bytes of the files next to the weights, several times the sizes of published ones.
const (
	maxConfig    = 4 << 20
	maxTokenizer = 128 << 20
)

// checkpoint is the files of a model as Hugging Face's libraries save it.
type checkpoint struct {
	files  []files.Source
	byName map[string]files.Source // by base name; the first of each
	where  string                  // the folder, for messages
}

// fromCheckpoint makes of a checkpoint what llama.cpp's convert_hf_to_gguf makes of it: the same tensor names and
// order of rows, and the same metadata where it matters to running the model.
func fromCheckpoint(sources []files.Source, o *Options) (*model, error) {
	c := &checkpoint{files: sources, byName: map[string]files.Source{}}
	for _, src := range sources {
		if name := baseName(src.Name()); c.byName[name] == nil {
			c.byName[name] = src
		}
	}
	weights, err := c.weights()
	if err != nil {
		return nil, err
	}
	raw, err := c.need("config.json", maxConfig)
	if err != nil {
		return nil, err
	}
	s, described, err := readConfig(c.find("config.json").Name(), raw)
	if err != nil {
		return nil, err
	}
	m := &model{name: cmp.Or(c.where, weights.Name())}
	m.kv = []gguf.KV{{Key: "general.architecture", Value: s.Architecture}, {Key: "general.type", Value: "model"},
		{Key: "general.name", Value: c.modelName(s, o)}}
	m.kv = append(m.kv, s.kv...)
	if err := m.addWeights(weights, s, described); err != nil {
		return nil, err
	}
	m.set("general.file_type", m.fileType())
	m.set("general.quantization_version", uint32(2))
	return m, c.vocabulary(m, s, o)
}

// modelName is the name asked for, the folder's, or what config.json calls the model.
func (c *checkpoint) modelName(s *hparams, o *Options) string {
	switch {
	case o.Name != "":
		return o.Name
	case c.where != "":
		return baseName(c.where)
	case s.savedAs != "":
		return baseName(s.savedAs)
	}
	return s.modelType
}

// find gives the file of that name, or nil.
func (c *checkpoint) find(name string) files.Source { return c.byName[name] }

// read gives the content of a file, nil where it is not there.
func (c *checkpoint) read(name string, most int64) ([]byte, error) {
	src := c.find(name)
	if src == nil {
		return nil, nil
	}
	return readSource(src, most)
}

func readSource(src files.Source, most int64) ([]byte, error) {
	if src.Size() < 0 || src.Size() > most {
		return nil, fmt.Errorf("convert: %s: %d bytes; at most %d are read: this is not the file it is named as",
			src.Name(), src.Size(), most)
	}
	raw := make([]byte, src.Size())
	if err := files.ReadFull(src, raw, 0); err != nil {
		return nil, fmt.Errorf("convert: %s: %w", src.Name(), err)
	}
	return raw, nil
}

// need is read for a file without which there is no model.
func (c *checkpoint) need(name string, most int64) ([]byte, error) {
	raw, err := c.read(name, most)
	if err != nil || len(raw) > 0 {
		return raw, err
	}
	fix := "put it beside the weights, or choose it together with them"
	if name == "tokenizer.json" && c.find("tokenizer.model") != nil {
		fix = "tokenizer.model is not read; saving the tokenizer with transformers' AutoTokenizer writes tokenizer.json"
	}
	if c.find(name) != nil {
		return nil, fmt.Errorf("convert: %s is empty: download it again", c.find(name).Name())
	}
	return nil, fmt.Errorf("convert: %s: %s is missing: %s", c.where, name, fix)
}

// weights opens the files that the index names, or the only weights file.
func (c *checkpoint) weights() (*safetensors.File, error) {
	var weights []files.Source
	for _, src := range c.files {
		if strings.HasSuffix(baseName(src.Name()), ".safetensors") {
			weights = append(weights, src)
		}
	}
	if index := c.find(indexName); index != nil {
		c.where = folder(index.Name())
		return safetensors.OpenSharded(index, func(name string) (files.Source, error) {
			if src := c.find(name); src != nil {
				return src, nil
			}
			return nil, errors.New("the file is missing: put it beside the index, or choose it together with it")
		})
	}
	src := c.find("model.safetensors")
	if src == nil && len(weights) == 1 {
		src = weights[0]
	}
	if src == nil {
		return nil, fmt.Errorf("convert: %s: %d files of weights and no %s, which says what is in which: "+
			"put it beside them", weights[0].Name(), len(weights), indexName)
	}
	c.where = folder(src.Name())
	if strings.HasPrefix(baseName(src.Name()), "adapter") {
		return nil, fmt.Errorf(
			"convert: %s: this is an adapter, not a model: merge it into its model first", src.Name())
	}
	return safetensors.Open(src)
}

// vocabulary adds the tokenizer's metadata and the chat template.
func (c *checkpoint) vocabulary(m *model, s *hparams, o *Options) error {
	raw, err := c.need("tokenizer.json", maxTokenizer)
	if err != nil {
		return err
	}
	config, err := c.read("tokenizer_config.json", maxTokenizer)
	if err != nil {
		return err
	}
	name := c.find("tokenizer.json").Name()
	kv, err := tokenizer.MetadataFromJSON(name, raw, config)
	if err != nil {
		return err
	}
	for _, e := range kv {
		if m.has(e.Key) {
			return fmt.Errorf("convert: %s: %s is given twice", name, quote.Name(e.Key))
		}
		m.kv = append(m.kv, e)
	}
	if err := m.padVocabulary(name, s.vocab); err != nil {
		return err
	}
	template, err := c.read("chat_template.jinja", gguf.MaxTemplateBytes)
	if err != nil {
		return err
	}
	if !utf8.Valid(template) {
		return fmt.Errorf("convert: %s is not UTF-8 text", c.find("chat_template.jinja").Name())
	}
	if !gguf.Blank(string(template)) { // newer than what tokenizer_config.json may still hold
		m.set("tokenizer.chat_template", string(template))
	}
	return c.specialIDs(m, s, o)
}

// padVocabulary gives every row of the embedding a token. Rows beyond the tokenizer's are
// padding to a round number; llama.cpp's converter calls them [PADn] and marks them unused.
func (m *model) padVocabulary(name string, vocab int) error {
	for i := range m.kv {
		switch e := &m.kv[i]; v := e.Value.(type) {
		case []string:
			if e.Key != "tokenizer.ggml.tokens" {
				continue
			}
			if len(v) > vocab {
				return fmt.Errorf("convert: %s: %d tokens, but the model's vocab_size is %d: "+
					"the tokenizer is of another model", name, len(v), vocab)
			}
			v = slices.Clone(v)
			for id := len(v); id < vocab; id++ {
				v = append(v, fmt.Sprintf("[PAD%d]", id))
			}
			e.Value = v
		case []int32:
			if e.Key == "tokenizer.ggml.token_type" && len(v) < vocab {
				const unused = 5
				e.Value = append(slices.Clone(v), slices.Repeat([]int32{unused}, vocab-len(v))...)
			}
		case []float32:
			if e.Key == "tokenizer.ggml.scores" && len(v) < vocab {
				e.Value = append(slices.Clone(v), slices.Repeat([]float32{-10000}, vocab-len(v))...)
			}
		}
	}
	return nil
}

// specialIDs adds the ids that config.json and generation_config.json name and the tokenizer's files do not. A
// model may have several end tokens, but llama.cpp's format holds one id each for the end of text, of turn and of
// message: the first three go there. eos_token_ids, the key of Ollama's converter, holds all of them.
func (c *checkpoint) specialIDs(m *model, s *hparams, o *Options) error {
	eos := s.eos
	raw, err := c.read("generation_config.json", maxConfig)
	if err != nil {
		return err
	}
	if raw != nil {
		f := &fields{name: c.find("generation_config.json").Name()}
		if err := safetensors.DecodeConfig(raw, &f.values); err != nil {
			return fmt.Errorf("convert: %s: not a JSON object: %w", f.name, quote.Error(err))
		}
		if more := f.ids("eos_token_id"); more != nil {
			eos = more // what generation is meant to end at
		}
		if f.err != nil {
			return f.err
		}
	}
	const keyEOS, keyEnds, keyPad = "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eos_token_ids",
		"tokenizer.ggml.padding_token_id"
	check := func(key string, id int) error {
		if id < 0 || id >= s.vocab {
			return fmt.Errorf("convert: %s: %s: id %d, but there are %d tokens", c.where, key, id, s.vocab)
		}
		return nil
	}
	set := func(key string, ids []int) error {
		if len(ids) == 0 || ids[0] == -1 || m.has(key) { // -1 stands for none
			return nil
		}
		if key == keyPad && ids[0] >= s.vocab { // a row that training added and saving left out
			return nil
		}
		if err := check(key, ids[0]); err != nil {
			return err
		}
		m.set(key, uint32(ids[0]))
		return nil
	}
	for _, e := range []struct {
		key string
		ids []int
	}{{"tokenizer.ggml.bos_token_id", s.bos}, {keyEOS, eos}, {keyPad, s.pad}} {
		if err := set(e.key, e.ids); err != nil {
			return err
		}
	}
	free := []string{"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}
	named := map[int]bool{}
	for i := range m.kv {
		if e := &m.kv[i]; e.Key == keyEOS || slices.Contains(free, e.Key) { // bound: 2 keys
			if id, ok := e.Value.(uint32); ok {
				named[int(id)] = true
			}
		}
	}
	free = slices.DeleteFunc(free, m.has)
	if len(eos) > tokenizer.MaxEnds {
		return fmt.Errorf("convert: %s: eos_token_id names %d tokens; at most %d are read", c.where, len(eos),
			tokenizer.MaxEnds)
	}
	var ends []int32
	for _, id := range eos {
		if id == -1 {
			continue
		}
		if err := check(keyEnds, id); err != nil { // before it is taken for one of 32 bits
			return err
		}
		if slices.Contains(ends, int32(id)) { // bound: MaxEnds
			continue
		}
		ends = append(ends, int32(id))
		if named[id] {
			continue
		}
		if len(free) == 0 {
			o.note("%s: %d tokens end a text; programs that do not read %s know three, and go on after %d", c.where,
				len(eos), keyEnds, id)
			continue
		}
		if err := set(free[0], []int{id}); err != nil {
			return err
		}
		named[id], free = true, free[1:]
	}
	if len(ends) > 1 {
		m.set(keyEnds, ends)
	}
	return nil
}
