package pair

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"

	"foretoken/internal/files"
	"foretoken/internal/kind"
	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/runner"
	"foretoken/models/tokenizer"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Files is a pair whose headers were read and found compatible.
type Files struct {
	Target    *gguf.File
	Tokenizer *tokenizer.Tokenizer
	Context   int // positions of both KV caches

	options     Options
	sources     struct{ target, draft files.Source }
	draft, head *gguf.File // nil without one
	vocab       int        // ids that take part
	kv          kernels.KVFormat
}

// Read reads the headers of a target, of its draft unless that is nil, and of the head in the options.
func Read(target, draft files.Source, o Options) (*Files, error) {
	f, tok, err := openModel(target)
	if err != nil {
		return nil, err
	}
	p := &Files{options: o, Target: f, Tokenizer: tok}
	p.sources.target, p.sources.draft = target, draft
	return p, p.complete()
}

// Inspect returns what loading a target alone would allocate, and its tokenizer, which is nil where the file cannot be
// run by what is read before it.
func Inspect(f *gguf.File, o Options, limits webgpu.Limits) (*tokenizer.Tokenizer, *Memory, error) {
	tok, err := check(f)
	if err != nil {
		return tok, nil, err
	}
	p := &Files{options: o, Target: f, Tokenizer: tok}
	if err := p.complete(); err != nil {
		return tok, nil, err
	}
	m, err := p.Memory(limits)
	return tok, m, err
}

// Names maps the name of each source to the role of its model. Messages for clients, which must not see paths, replace
// the name by the role.
func (p *Files) Names() map[string]string {
	names := map[string]string{p.Target.Name(): "the target"}
	if p.draft != nil {
		names[p.draft.Name()] = "the draft model"
	}
	if head := p.options.EAGLE3; head != nil {
		names[head.Name()] = "the EAGLE-3 head"
	}
	return names
}

// openModel reads a file's header and its tokenizer.
func openModel(src files.Source) (*gguf.File, *tokenizer.Tokenizer, error) {
	f, err := gguf.Open(src)
	if err != nil {
		return nil, nil, err
	}
	tok, err := check(f)
	return f, tok, err
}

// check refuses a file that cannot be run, and returns its tokenizer. Numbers are compared before any list is read.
func check(f *gguf.File) (*tokenizer.Tokenizer, error) {
	c, err := arch.Read(f, 0)
	if err := cmp.Or(convert.CheckWhole(f), err); err != nil {
		return nil, err
	}
	for i := range f.Tensors {
		if err := graph.CheckType(f, &f.Tensors[i]); err != nil {
			return nil, err
		}
	}
	if err := c.CheckVocab(f.Name(), tokenizer.Count(f)); err != nil {
		return nil, err
	}
	return tokenizer.New(f)
}

// complete reads what goes with the target.
func (p *Files) complete() (err error) {
	o := &p.options
	if o.KV != "" {
		if p.kv, err = kernels.ParseKVFormat(o.KV); err != nil {
			return kind.Refuse("foretoken: KV format %.80q; want f32, f16 or q8", o.KV)
		}
	}
	p.vocab = usable(p.Tokenizer)
	if draft := p.sources.draft; draft != nil {
		var other *tokenizer.Tokenizer
		if p.draft, other, err = openModel(draft); err != nil {
			return err
		}
		if p.vocab, err = pairVocab(p.Tokenizer, other, p.Target.Name(), p.draft.Name()); err != nil {
			return err
		}
	}
	if p.Context, err = contextOf(o.Context, p.Target, p.draft); err != nil || o.EAGLE3 == nil {
		return err
	}
	if o.EAGLE3Config == nil && !convert.IsGGUF(o.EAGLE3) {
		return kind.Refuse("foretoken: %s: an EAGLE-3 head in safetensors needs the config.json that was published "+
			"with it", o.EAGLE3.Name())
	}
	if p.head, err = convert.Head(o.EAGLE3, o.EAGLE3Config); err == nil {
		p.head, err = convert.QuantiseHead(p.head, o.EAGLE3Quantise)
	}
	return err
}

// contextOf returns the length that both models are loaded with.
func contextOf(asked int, files ...*gguf.File) (int, error) {
	most := math.MaxInt
	for _, f := range files {
		if f == nil {
			continue
		}
		c, err := arch.Read(f, asked)
		if err != nil {
			return 0, err
		}
		if asked > c.Context {
			return 0, kind.Refuse("foretoken: a context of %d was asked for, but %s was trained for %d positions",
				asked, f.Name(), c.Context)
		}
		most = min(most, c.Usable())
	}
	if asked < 0 {
		return 0, kind.Refuse("foretoken: a context of %d was asked for", asked)
	}
	return arch.ContextOf(asked, most), nil
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

// pairVocab returns the number of ids that a target and its draft have in common. It refuses pairs that disagree on a
// token or a special id, and drafts that lack a token of the target: a draft may propose any common token, but the
// target may draw any of its tokens.
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

// Memory is the number of bytes that loading a pair allocates on a device. Target includes the features kept for an
// EAGLE-3 head.
type Memory struct {
	Target        graph.Memory
	Draft, EAGLE3 *graph.Memory // nil without
	Total         int64
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

// Memory returns what loading the pair allocates on a device of these limits, to the byte. It reads no weights, and
// refuses a pair that needs more than the device or Options.Memory gives.
func (p *Files) Memory(limits webgpu.Limits) (*Memory, error) {
	m, err := p.plan(limits)
	most, why := p.options.Memory, "allowed"
	if d := int64(limits.MaxMemory); d > 0 && (most <= 0 || d < most) {
		most, why = d, "that the device can have"
	}
	if err != nil || most <= 0 || m.Total <= most {
		return m, err
	}
	fit := func(positions int, kv kernels.KVFormat) bool {
		q := *p
		q.Context, q.kv = positions, kv
		m, err := q.plan(limits)
		return err == nil && m.Total <= most
	}
	takes, has := graph.Sizes(m.Total, most)
	return nil, fmt.Errorf("foretoken: loading takes %s (%s), more than the %s %s; %s", takes, m.parts(), has, why,
		graph.Advice(p.Context, p.kv, fit))
}

func (p *Files) plan(limits webgpu.Limits) (*Memory, error) {
	m := &Memory{}
	var err error
	if m.Target, err = runner.Plan(p.Target, p.loading("target"), limits); err != nil {
		return nil, err
	}
	m.Total = m.Target.Total()
	if p.draft != nil {
		d, err := runner.PlanDraft(p.draft, p.loading("draft"), limits)
		if err != nil {
			return nil, err
		}
		m.Draft, m.Total = &d, m.Total+d.Total()
	}
	if p.head != nil {
		h, features, err := runner.PlanEAGLE3(p.Target, p.loading("target"), p.head, p.loading("eagle3"), limits)
		if err != nil {
			return nil, err
		}
		m.Target.Workspace += features
		m.EAGLE3, m.Total = &h, m.Total+h.Total()+features
	}
	return m, nil
}

// loading returns the loading options of a model, by its stage of Progress.
func (p *Files) loading(stage string) graph.Options {
	o := graph.Options{Context: p.Context, KV: p.kv, Vocab: p.vocab}
	o.TopK = p.options.Beams
	if stage == "target" {
		o.MaxRows, o.TopK = p.options.Nodes, p.options.Candidates
	}
	return o
}

// hashed is the number of bytes at each end of a file that go into its hash: the header, with the configuration,
// the vocabulary and every tensor's name and shape, and some weights. A hash of all bytes would have to fetch the
// complete file where weights come over a network.
const (
	hashedHead = 1 << 20
	hashedTail = 1 << 16
)

// Identify names a model file by its size and a SHA-256 over its size, its first MiB and its last 64 KiB. hash computes
// the SHA-256; nil: crypto/sha256. A model without a name is called by its file's.
func Identify(src files.Source, name, quantisation string, hash func([]byte) [sha256.Size]byte) (spec.ModelID, error) {
	size := src.Size()
	head := min(size, hashedHead)
	tail := max(head, size-hashedTail)
	text := fmt.Appendln(nil, size)
	at := int64(len(text))
	text = append(text, make([]byte, head+size-tail)...)
	for _, part := range []struct{ from, to int64 }{{0, head}, {tail, size}} {
		b := text[at : at+part.to-part.from]
		at += int64(len(b))
		if n, err := src.ReadAt(b, part.from); n < len(b) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return spec.ModelID{}, fmt.Errorf("foretoken: %s: bytes %d to %d, to tell the file by: %w", src.Name(),
				part.from, part.to, err)
		}
	}
	if name == "" {
		name = src.Name()
	}
	if hash == nil {
		hash = sha256.Sum256
	}
	sum := hash(text)
	return spec.ModelID{Name: name, Bytes: size, Hash: hex.EncodeToString(sum[:16]), Quantisation: quantisation}, nil
}
