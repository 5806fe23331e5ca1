package foretoken

import (
	"fmt"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/llama"
	"foretoken/models/tokenizer"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Memory is the number of bytes that Open allocates on a device for a pair. The first request of some policies
// allocates a little more.
type Memory struct {
	Target graph.Memory  `json:"target"` // includes the features kept for an EAGLE-3 head
	Draft  *graph.Memory `json:"draft,omitempty"`
	EAGLE3 *graph.Memory `json:"eagle3,omitempty"`
	Total  int64         `json:"total"`
}

func (m *Memory) String() string { return graph.Size(m.Total) + ": " + m.parts() }

func (m *Memory) parts() string {
	text := m.Target.String()
	if m.Draft != nil || m.EAGLE3 != nil {
		text = fmt.Sprintf("target %s: %s", graph.Size(m.Target.Total()), text)
	}
	for _, other := range []struct {
		name string
		*graph.Memory
	}{{"draft", m.Draft}, {"EAGLE-3 head", m.EAGLE3}} {
		if other.Memory != nil {
			text += fmt.Sprintf("; %s %s: %s", other.name, graph.Size(other.Total()), other.Memory)
		}
	}
	return text
}

// Plan says what Open would allocate for a pair with these options on a device of these limits, to the byte, without
// reading any weights. It fails as Open would: where the models cannot be run or do not go together, a buffer would be
// larger than the device has, or all of them are more than Options.Memory.
func Plan(target, draft files.Source, o Options, limits webgpu.Limits) (*Memory, error) {
	p, err := readHeaders(target, draft, o)
	if err != nil {
		return nil, err
	}
	return p.memory(o, limits)
}

// Inspect is Plan for an opened file alone, with its tokenizer, which is nil where the file cannot be run by what is
// read before it.
func Inspect(f *gguf.File, o Options, limits webgpu.Limits) (*tokenizer.Tokenizer, *Memory, error) {
	tok, err := check(f)
	if err != nil {
		return tok, nil, err
	}
	p := &modelFiles{target: f, tok: tok}
	if err := p.complete(o); err != nil {
		return tok, nil, err
	}
	m, err := p.memory(o, limits)
	return tok, m, err
}

// modelFiles is a pair whose headers were read and found compatible.
type modelFiles struct {
	sources          struct{ target, draft files.Source }
	target, draft    *gguf.File // draft is nil where there is none
	tok              *tokenizer.Tokenizer
	vocab, positions int
	kv               kernels.KVFormat
	head             *gguf.File // nil without one
}

func readHeaders(target, draft files.Source, o Options) (*modelFiles, error) {
	f, tok, err := openModel(target)
	if err != nil {
		return nil, err
	}
	p := &modelFiles{target: f, tok: tok}
	p.sources.target, p.sources.draft = target, draft
	return p, p.complete(o)
}

// complete reads what goes with the target.
func (p *modelFiles) complete(o Options) (err error) {
	if o.KV != "" {
		if p.kv, err = kernels.ParseKVFormat(o.KV); err != nil {
			return refused("foretoken: KV format %.80q; want f32, f16 or q8", o.KV)
		}
	}
	p.vocab = usable(p.tok)
	draft := p.sources.draft
	if draft != nil {
		var other *tokenizer.Tokenizer
		if p.draft, other, err = openModel(draft); err != nil {
			return err
		}
		if p.vocab, err = pairVocab(p.tok, other, p.target.Name(), p.draft.Name()); err != nil {
			return err
		}
	}
	if p.positions, err = contextOf(o.Context, p.target, p.draft); err != nil || o.EAGLE3 == nil {
		return err
	}
	if o.EAGLE3Config == nil {
		return refused("foretoken: %s: an EAGLE-3 head needs the config.json that was published with it",
			o.EAGLE3.Name())
	}
	p.head, err = convert.Head(o.EAGLE3, o.EAGLE3Config)
	return err
}

// options returns the loading options of a model of the pair; nodes bounds the verified trees.
func (p *modelFiles) options(nodes int) graph.Options {
	return graph.Options{Context: p.positions, KV: p.kv, Vocab: p.vocab, MaxRows: nodes}
}

func (p *modelFiles) memory(o Options, limits webgpu.Limits) (*Memory, error) {
	m, err := p.plan(o, limits)
	most, why := o.Memory, "allowed"
	if d := int64(limits.MaxMemory); d > 0 && (most <= 0 || d < most) {
		most, why = d, "that the device can have"
	}
	if err != nil || most <= 0 || m.Total <= most {
		return m, err
	}
	fit := func(positions int, kv kernels.KVFormat) bool {
		q := *p
		q.positions, q.kv = positions, kv
		m, err := q.plan(o, limits)
		return err == nil && m.Total <= most
	}
	takes, has := graph.Sizes(m.Total, most)
	return nil, fmt.Errorf("foretoken: loading takes %s (%s), more than the %s %s; %s", takes, m.parts(), has, why,
		graph.Advice(p.positions, p.kv, fit))
}

func (p *modelFiles) plan(o Options, limits webgpu.Limits) (*Memory, error) {
	m := &Memory{}
	var err error
	loading := p.options(o.Nodes)
	loading.TopK = o.Candidates
	if m.Target, err = llama.Plan(p.target, loading, limits); err != nil {
		return nil, err
	}
	m.Total = m.Target.Total()
	if p.draft != nil {
		d, err := llama.PlanDraft(p.draft, p.options(0), limits)
		if err != nil {
			return nil, err
		}
		m.Draft, m.Total = &d, m.Total+d.Total()
	}
	if p.head != nil {
		h, features, err := llama.PlanEAGLE3(p.target, p.options(o.Nodes), p.head, p.options(0), limits)
		if err != nil {
			return nil, err
		}
		m.Target.Workspace += features
		m.EAGLE3, m.Total = &h, m.Total+h.Total()+features
	}
	return m, nil
}

// usable returns the number of ids that may be drafted and drawn: all up to the last that is a token. Converters
// pad vocabularies to the rows of the matrix, which training never touched; their logits mean nothing.
func usable(tok *tokenizer.Tokenizer) int {
	n := tok.VocabSize()
	for n > 1 && len(tok.Piece(int32(n-1))) == 0 && !tok.Special(int32(n-1)) {
		n--
	}
	return n
}

// pairVocab returns the number of ids that a target and its draft have in common. It refuses pairs that disagree on
// a token or a special id, and drafts that lack a token of the target: a draft may propose any common token, but
// the target may draw any of its own.
func pairVocab(target, draft *tokenizer.Tokenizer, targetName, draftName string) (int, error) {
	if err := tokenizer.Compatible(draft, target); err != nil {
		return 0, err // names both files and the first token they disagree on
	}
	n, m := usable(target), usable(draft)
	if n > m {
		return 0, fmt.Errorf("foretoken: %s has the token %d %s, which the draft %s has no id for; choose a draft "+
			"of the same family, or none", targetName, n-1, quote.Text(target.TokenText(int32(n-1))), draftName)
	}
	return n, nil
}
