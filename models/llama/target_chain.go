package llama

import (
	"context"
	"errors"
	"fmt"
	"math"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// deviceDraft is a draft on a device, a Draft or an EAGLE3.
type deviceDraft interface{ draft() *Draft }

func (d *Draft) draft() *Draft { return d }

// draftOf returns the Draft behind an interface of package spec. It returns an error unless the draft is on the
// target's device and has its vocabulary.
func (t *Target) draftOf(draft any) (*Draft, error) {
	if h, ok := draft.(deviceDraft); ok {
		switch d := h.draft(); {
		case d != nil && d.dev != t.dev:
			return nil, errors.New("llama: comparing distributions needs the draft on the target's device")
		case d != nil && d.opts.Vocab == t.opts.Vocab:
			return d, nil
		}
	}
	return nil, errors.New("llama: comparing distributions needs draft and target with one vocabulary")
}

// verdictMemory is the memory of the verdicts on drafts, valid until the next call.
type verdictMemory struct {
	chain       []spec.ChainVerdict
	divergences []spec.Divergence
	tree        []spec.TreeVerdict
}

// chainKey identifies a program that verifies a chain of k tokens against a draft's distributions.
type chainKey struct {
	draft      *Draft
	k          int
	divergence bool // measure the distances; otherwise apply the rejection rule
}

// PrepareChains compiles the programs of VerifyChain and VerifyDivergence for chains of up to most tokens of a
// draft, so that the first round does not wait for them.
func (t *Target) PrepareChains(draft spec.DraftModel, most int) error {
	d, err := t.draftOf(draft)
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

// beginChain starts a run over a chain, which has to be a prefix of the draft's last one, and returns the program that
// verifies it.
func (t *Target) beginChain(ctx context.Context, chain *spec.Tree, draft spec.DraftModel, s spec.Sampling,
	divergence bool) (webgpu.Program, error) {
	d, err := t.draftOf(draft)
	if err != nil {
		return 0, err
	}
	k := len(chain.Tokens) - 1
	if k < 1 || k > len(d.sampled) {
		return 0, fmt.Errorf("llama: a chain of %d tokens; the draft sampled %d", k, len(d.sampled))
	}
	if k >= t.passRows() {
		return 0, fmt.Errorf("llama: a chain of %d tokens; at most %d can be verified", k, t.passRows()-1)
	}
	for i, token := range chain.Tokens[1:] {
		if token != d.sampled[i].Token || chain.Parents[i+1] != int32(i) {
			return 0, errors.New("llama: the chain to verify is not the one that the draft sampled last")
		}
	}
	program, err := t.chainProgram(chainKey{d, k, divergence})
	if err != nil {
		return 0, err
	}
	return program, t.begin(ctx, chain, s)
}

// chainProgram returns the program that verifies a chain, compiled at first use. It reads the records of the part's
// filter program.
func (t *Target) chainProgram(key chainKey) (webgpu.Program, error) {
	if p, ok := t.chains[key]; ok {
		return p, nil
	}
	d, w, records := key.draft, &t.work, t.results.filtered.view
	var r *kernels.Recorder
	if key.divergence {
		r = t.recorder(fmt.Sprintf("compare %d", key.k))
		sample.RecordDivergence(r, t.tuning.Lanes, sample.Comparison{Target: t.logitRows(key.k),
			Draft: d.logitRows(key.k), TargetRecord: records, DraftRecord: d.drawnRecords, DraftStride: recordWords,
			Draw: w.draw, Out: t.results.divergences.view})
	} else {
		r = t.recorder(fmt.Sprintf("reject %d", key.k))
		sample.RecordReject(r, t.tuning.Lanes, sample.Rejection{Target: t.logitRows(key.k + 1),
			Draft: d.logitRows(key.k), TargetRecord: records, DraftRecord: d.drawnRecords, DraftStride: recordWords,
			Draw: w.draw, Positions: t.prefill.batch.Drawn, Out: t.results.verdicts.view})
	}
	return buildInto(t.Model, t.chains, key, r)
}

// VerifyChain verifies a chain that draft sampled by the rejection rule, in one submit and one readback. The draft
// must be on the same device.
func (t *Target) VerifyChain(ctx context.Context, chain *spec.Tree, draft spec.DraftModel,
	s spec.Sampling) ([]spec.ChainVerdict, error) {
	n := len(chain.Tokens)
	verify, err := t.beginChain(ctx, chain, draft, s, false)
	if err != nil {
		return nil, err
	}
	t.eachPart(n, func(key part, p *partPrograms) {
		t.pass(key, p)
		t.programs = append(t.programs, p.filter, verify)
	})
	t.readVerdicts(n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	return t.chainVerdicts(n), nil
}

// readVerdicts adds the readback of the verdicts on n nodes, and of the records that tell whether logits are finite.
func (t *Target) readVerdicts(n int) {
	t.read(t.results.verdicts, n)
	t.read(t.results.filtered, n)
}

// finite reports whether the logits of a node were finite, by the readback of its filter's record.
func (t *Target) finite(node int) bool {
	f := sample.DecodeFilter(t.results.of(t.results.filtered, node+1)[kernels.FilterWords*node:])
	return f.Finite(t.drawWords[0])
}

func (t *Target) chainVerdicts(n int) []spec.ChainVerdict {
	words := t.results.of(t.results.verdicts, n)
	t.verdicts.chain = resize(t.verdicts.chain, n)
	for i := range n {
		t.verdicts.chain[i] = spec.ChainVerdict{Accepted: words[sample.RejectWords*i] == 1,
			Token: int32(words[sample.RejectWords*i+1])}
		if !t.finite(i) {
			t.verdicts.chain[i] = spec.ChainVerdict{Token: spec.NoToken}
		}
	}
	return t.verdicts.chain
}

// VerifyDivergence is Verify for a chain that draft sampled. It also returns the distance between draft and target
// at every node but the last, in one submit and one readback. The draft must be on the same device.
func (t *Target) VerifyDivergence(ctx context.Context, chain *spec.Tree, draft spec.DraftModel,
	s spec.Sampling) ([]spec.NodeOutput, []spec.Divergence, error) {
	n := len(chain.Tokens)
	compare, err := t.beginChain(ctx, chain, draft, s, true)
	if err != nil {
		return nil, nil, err
	}
	t.addComparison(n, s, compare, t.pass)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, nil, err
	}
	return t.decodeOutputs(n, s), t.divergences(n), nil
}

// addComparison adds the pass over n nodes, its outputs, and the comparison with the draft's distributions.
func (t *Target) addComparison(n int, s spec.Sampling, compare webgpu.Program, pass func(part, *partPrograms)) {
	t.eachPart(n, func(key part, p *partPrograms) {
		pass(key, p)
		t.programs = append(t.programs, p.sample)
		if s.Temperature > 0 { // at temperature 0 the softmaxes are compared, which need no record
			t.programs = append(t.programs, p.filter)
		}
		t.programs = append(t.programs, compare)
	})
	t.readOutputs(n, s)
	t.read(t.results.divergences, n-1)
}

// divergences decodes the distances of a chain of n nodes, whose outputs are decoded.
func (t *Target) divergences(n int) []spec.Divergence {
	words := t.results.of(t.results.divergences, n-1)
	t.verdicts.divergences = resize(t.verdicts.divergences, n-1)
	gaps := t.verdicts.divergences
	for i := range gaps {
		gaps[i] = spec.Divergence{Distance: math.Float32frombits(words[sample.DivergenceWords*i]),
			Possible: words[sample.DivergenceWords*i+1] == 1 && t.outputs[i].Token != spec.NoToken}
	}
	return gaps
}
