package pair

import (
	"cmp"
	"fmt"

	"foretoken/internal/files"
	"foretoken/internal/kind"
	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/models/tokenizer"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Files is a pair whose headers were read and found compatible.
type Files struct {
	options       Options
	sources       struct{ target, draft files.Source }
	target, draft *gguf.File // draft is nil where there is none
	tok           *tokenizer.Tokenizer
	vocab         int // ids that take part
	positions     int
	kv            kernels.KVFormat
	head          *gguf.File // nil without one
}

// Read reads the headers of a target, of its draft unless that is nil, and of the head in the options.
func Read(target, draft files.Source, o Options) (*Files, error) {
	f, tok, err := openModel(target)
	if err != nil {
		return nil, err
	}
	p := &Files{options: o, target: f, tok: tok}
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
	p := &Files{options: o, target: f, tok: tok}
	if err := p.complete(); err != nil {
		return tok, nil, err
	}
	m, err := p.Memory(limits)
	return tok, m, err
}

// Target returns the target's file.
func (p *Files) Target() *gguf.File { return p.target }

// Tokenizer returns the pair's.
func (p *Files) Tokenizer() *tokenizer.Tokenizer { return p.tok }

// Context returns the positions of both KV caches.
func (p *Files) Context() int { return p.positions }

// Names returns what the files are to those who must not know where they lie, by the names of their sources.
func (p *Files) Names() map[string]string {
	names := map[string]string{p.target.Name(): "the target"}
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
		if t := &f.Tensors[i]; !quant.Supported(t.Type) {
			return nil, fmt.Errorf("foretoken: %s: tensor %s is %s; %s can be run", f.Name(), quote.Name(t.Name),
				t.Type, quant.Names)
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
	p.vocab = usable(p.tok)
	if draft := p.sources.draft; draft != nil {
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
		return kind.Refuse("foretoken: %s: an EAGLE-3 head needs the config.json that was published with it",
			o.EAGLE3.Name())
	}
	p.head, err = convert.Head(o.EAGLE3, o.EAGLE3Config)
	return err
}

// contextOf returns the length that both models are loaded with.
func contextOf(asked int, files ...*gguf.File) (int, error) {
	most := arch.DefaultContext
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
	if asked > 0 {
		return asked, nil
	}
	return most, nil
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
