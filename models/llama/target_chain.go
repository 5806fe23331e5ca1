package llama

import (
	"errors"
	"fmt"
	"math"

	"foretoken/models/graph"
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
		case d != nil && d.Dev != t.Dev:
			return nil, errors.New("llama: comparing distributions needs the draft on the target's device")
		case d != nil && d.Options.Vocab == t.Options.Vocab:
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

// checkChain returns the draft that sampled a request's chain, which has to be a prefix of its last one, and compiles
// the program that compares with it.
func (t *Target) checkChain(r *spec.PassRequest) (*Draft, error) {
	d, err := t.draftOf(r.Model)
	if err != nil {
		return nil, err
	}
	k := len(r.Tree.Tokens) - 1
	if k < 1 || k > len(d.sampled) {
		return nil, fmt.Errorf("llama: a chain of %d tokens; the draft sampled %d", k, len(d.sampled))
	}
	if k >= t.PassRows() {
		return nil, fmt.Errorf("llama: a chain of %d tokens; at most %d can be verified", k, t.PassRows()-1)
	}
	for i, token := range r.Tree.Tokens[1:] {
		if token != d.sampled[i].Token || r.Tree.Parents[i+1] != int32(i) {
			return nil, errors.New("llama: the chain to verify is not the one that the draft sampled last")
		}
	}
	_, err = t.chainProgram(chainKey{d, k, r.Kind == spec.PassDivergence})
	return d, err
}

// chainProgram returns the program that verifies a chain, compiled at first use. It reads the records of the part's
// filter program.
func (t *Target) chainProgram(key chainKey) (webgpu.Program, error) {
	if p, ok := t.chains[key]; ok {
		return p, nil
	}
	d, w, records := key.draft, &t.Space, t.results.filtered.view
	var r *kernels.Recorder
	if key.divergence {
		r = t.Recorder(fmt.Sprintf("compare %d", key.k))
		sample.RecordDivergence(r, t.Kernels.Lanes, sample.Comparison{Target: t.LogitRows(key.k),
			Draft: d.LogitRows(key.k), TargetRecord: records, DraftRecord: d.drawnRecords, DraftStride: recordWords,
			Draw: w.Draw, Out: t.results.divergences.view})
	} else {
		r = t.Recorder(fmt.Sprintf("reject %d", key.k))
		sample.RecordReject(r, t.Kernels.Lanes, sample.Rejection{Target: t.LogitRows(key.k + 1),
			Draft: d.LogitRows(key.k), TargetRecord: records, DraftRecord: d.drawnRecords, DraftStride: recordWords,
			Draw: w.Draw, Positions: t.prefill.batch.Drawn, Out: t.results.verdicts.view})
	}
	return graph.BuildInto(t.Graph, t.chains, key, r)
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
