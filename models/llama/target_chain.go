package llama

import (
	"context"
	"errors"
	"fmt"
	"math"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// holder is a draft whose distributions are on a device: a Draft, or what embeds one.
type holder interface{ holds() *Draft }

func (d *Draft) holds() *Draft { return d }

// holderOf is the draft behind an interface of package spec, if it is on the target's device and speaks
// the target's vocabulary.
func (t *Target) holderOf(draft any) (*Draft, error) {
	if h, ok := draft.(holder); ok {
		if d := h.holds(); d != nil && d.dev == t.dev && d.opts.Vocab == t.opts.Vocab {
			return d, nil
		}
	}
	return nil, errors.New("llama: to compare distributions, draft and target must be on one device and have one vocabulary")
}

// judged is the memory of what comes back of judged drafts, valid until the next call.
type judged struct {
	chain []spec.ChainVerdict
	gaps  []spec.Divergence
	tree  []spec.TreeVerdict
}

// chainKey is a program that judges a chain of k drafted tokens whose distributions a draft holds.
type chainKey struct {
	draft *Draft
	k     int
	gaps  bool // measures the distances; otherwise applies the rejection rule
}

// PrepareChains makes the programs that VerifyChain and VerifyDivergence need for chains of up
// to most tokens of a draft, so that the first round does not have to.
func (t *Target) PrepareChains(draft spec.SamplingDraft, most int) error {
	d, err := t.holderOf(draft)
	if err != nil {
		return err
	}
	if err := d.PrepareChain(most); err != nil {
		return err
	}
	if err := t.Prepare(most + 1); err != nil {
		return err
	}
	for k := 1; k <= most; k++ {
		for _, gaps := range []bool{false, true} {
			if _, err := t.chainProgram(chainKey{d, k, gaps}); err != nil {
				return err
			}
		}
	}
	return nil
}

// chainOf checks that a chain is what a draft sampled last, or its beginning, and returns the
// draft.
func (t *Target) chainOf(chain *spec.Tree, draft spec.SamplingDraft) (*Draft, error) {
	d, err := t.holderOf(draft)
	if err != nil {
		return nil, err
	}
	k := len(chain.Tokens) - 1
	if k < 1 || k > len(d.sampled) {
		return nil, fmt.Errorf("llama: a chain of %d tokens; the draft sampled %d", k, len(d.sampled))
	}
	if k >= t.passRows() {
		return nil, fmt.Errorf("llama: a chain of %d tokens; at most %d can be judged", k, t.passRows()-1)
	}
	for i, token := range chain.Tokens[1:] {
		if token != d.sampled[i].Token || chain.Parents[i+1] != int32(i) {
			return nil, errors.New("llama: the chain to verify is not the one that the draft sampled last")
		}
	}
	return d, nil
}

// chainProgram is the program that judges a chain, made at first use. It reads the records that
// the part's filter program leaves.
func (t *Target) chainProgram(key chainKey) (webgpu.Program, error) {
	if p, ok := t.chains[key]; ok {
		return p, nil
	}
	d, w, records := key.draft, &t.work, t.results.filtered.view
	var r *kernels.Recorder
	if key.gaps {
		r = t.recorder(fmt.Sprintf("compare %d", key.k))
		r.Divergence(t.tuning.lanes, kernels.Comparison{Target: t.logitRows(key.k), Draft: d.logitRows(key.k), TargetRecord: records,
			DraftRecord: d.drawnRecords, DraftStride: webgpu.BindingAlign / 4, Draw: w.draw, Out: t.results.gaps.view})
	} else {
		r = t.recorder(fmt.Sprintf("reject %d", key.k))
		r.Reject(t.tuning.lanes, kernels.Rejection{Target: t.logitRows(key.k + 1), Draft: d.logitRows(key.k), TargetRecord: records,
			DraftRecord: d.drawnRecords, DraftStride: webgpu.BindingAlign / 4, Draw: w.draw, Positions: t.feeding.batch.drawn, Out: t.results.verdicts.view})
	}
	p, err := t.build(r)
	if err != nil {
		return 0, err
	}
	t.chains[key] = p[0]
	return p[0], nil
}

// VerifyChain runs a chain that draft sampled and judges it by the rejection rule, in one
// submit and one readback. The draft must be on the same device.
func (t *Target) VerifyChain(ctx context.Context, chain *spec.Tree, draft spec.SamplingDraft, s spec.Sampling) ([]spec.ChainVerdict, error) {
	d, err := t.chainOf(chain, draft)
	if err != nil {
		return nil, err
	}
	n := len(chain.Tokens)
	judge, err := t.chainProgram(chainKey{d, n - 1, false})
	if err != nil {
		return nil, err
	}
	if err := t.begin(ctx, chain, s); err != nil {
		return nil, err
	}
	t.eachPart(n, func(key part, p *partPrograms) {
		t.pass(key, p)
		t.programs = append(t.programs, p.filter, judge)
	})
	t.read(t.results.verdicts, n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	return t.chainVerdicts(n), nil
}

// chainVerdicts reads those of n nodes from what came back.
func (t *Target) chainVerdicts(n int) []spec.ChainVerdict {
	words := t.results.of(t.results.verdicts, n)
	t.judged.chain = resize(t.judged.chain, n)
	for i := range n {
		t.judged.chain[i] = spec.ChainVerdict{Accepted: words[kernels.RejectWords*i] == 1, Token: int32(words[kernels.RejectWords*i+1])}
	}
	return t.judged.chain
}

// VerifyDivergence is Verify for a chain that draft sampled, with the distance between draft and target
// at every node but the last, in one submit and one readback. The draft must be on the
// same device.
func (t *Target) VerifyDivergence(ctx context.Context, chain *spec.Tree, draft spec.SamplingDraft, s spec.Sampling) ([]spec.NodeOutput, []spec.Divergence, error) {
	d, err := t.chainOf(chain, draft)
	if err != nil {
		return nil, nil, err
	}
	n := len(chain.Tokens)
	compare, err := t.chainProgram(chainKey{d, n - 1, true})
	if err != nil {
		return nil, nil, err
	}
	if err := t.begin(ctx, chain, s); err != nil {
		return nil, nil, err
	}
	t.compareParts(n, s, compare, t.pass)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, nil, err
	}
	return t.decodeOutputs(n, s), t.divergences(n), nil
}

// compareParts adds the pass of n nodes, what it says of each, and the comparison with the draft's distributions.
func (t *Target) compareParts(n int, s spec.Sampling, compare webgpu.Program, pass func(part, *partPrograms)) {
	t.eachPart(n, func(key part, p *partPrograms) {
		pass(key, p)
		t.programs = append(t.programs, p.sample)
		if s.Temperature > 0 { // at 0 the softmaxes are compared, of which there is no record
			t.programs = append(t.programs, p.filter)
		}
		t.programs = append(t.programs, compare)
	})
	t.readOutputs(n, s)
	t.read(t.results.gaps, n-1)
}

// divergences reads those of a chain of n nodes from what came back.
func (t *Target) divergences(n int) []spec.Divergence {
	words := t.results.of(t.results.gaps, n-1)
	t.judged.gaps = resize(t.judged.gaps, n-1)
	gaps := t.judged.gaps
	for i := range gaps {
		gaps[i] = spec.Divergence{Distance: math.Float32frombits(words[kernels.DivergenceWords*i]), Possible: words[kernels.DivergenceWords*i+1] == 1}
	}
	return gaps
}
