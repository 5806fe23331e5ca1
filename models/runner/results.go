package runner

import (
	"math"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
	treekernel "foretoken/webgpu/kernels/tree"
)

// results holds the outputs of a pass, one range for each kind, in one buffer with a host copy, and the answer that
// they decode to, which is valid until the next pass.
type results struct {
	buffer      webgpu.Buffer
	back        webgpu.Memory
	records     rowResults // output of sample.Record
	filtered    rowResults // output of sample.RecordFilter
	gathered    rowResults // candidates chosen by tree.RecordGather
	verdicts    rowResults // output of sample.RecordReject or tree.RecordVerify
	divergences rowResults // output of sample.RecordDivergence
	scores      rowResults // output of sample.RecordScore

	pass     spec.Pass
	outputs  []spec.NodeOutput // for as many nodes as a tree may have, with their memory
	chain    []spec.ChainVerdict
	distance []spec.Divergence
	children []spec.TreeVerdict
}

// rowResults holds some words for each row of a tree.
type rowResults struct {
	view  kernels.View
	words int // per row
}

// from returns the view of the rows from row on, a multiple of 64.
func (r rowResults) from(row int) kernels.View { return r.view.From(row * r.words) }

// allocate makes the buffer.
func (r *results) allocate(g *graph.Graph) error {
	rows, k := g.Options.MaxRows, g.Options.TopK
	r.records.words, r.filtered.words = kernels.SampleWords(k), kernels.FilterWords
	r.verdicts.words = max(sample.RejectWords, treekernel.VerdictWords)
	r.divergences.words, r.scores.words, r.gathered.words = sample.DivergenceWords, 1, 1
	kinds, words := []*rowResults{&r.records, &r.filtered, &r.gathered, &r.verdicts, &r.divergences, &r.scores}, 0
	for _, kind := range kinds {
		kind.view = kernels.View{Offset: 4 * words, Size: 4 * rows * kind.words}
		words += webgpu.AlignWords(rows * kind.words)
	}
	all, err := g.Buffer("results", 4*words)
	if err != nil {
		return err
	}
	r.buffer = all.Buffer
	for _, kind := range kinds {
		kind.view.Buffer = all.Buffer
	}
	return nil
}

// makeMemory makes the host copy of the buffer and the memory of outputs.
func (r *results) makeMemory(o *graph.Options) {
	r.back = webgpu.NewMemory(r.scores.view.Offset + 4*webgpu.AlignWords(o.MaxRows*r.scores.words))
	r.outputs = make([]spec.NodeOutput, o.MaxRows)
	for i := range r.outputs {
		r.outputs[i] = spec.NodeOutput{TopIDs: make([]int32, o.TopK), TopLogits: make([]float32, o.TopK)}
	}
}

// of returns the host copy of the first n rows.
func (r *results) of(kind rowResults, n int) webgpu.Memory {
	return r.back[kind.view.Offset/4:][:kind.words*n]
}

// read returns the readback of the first n rows.
func (r *results) read(kind rowResults, n int) webgpu.Region {
	return webgpu.Region{Buffer: r.buffer, Offset: kind.view.Offset, Dst: r.of(kind, n).Bytes()}
}

// decode decodes the answer to a pass over n nodes. temperature comes from the words of kernels.DrawParams; ids holds,
// per node, the numbers of the children of a tree drawn without replacement.
func (r *results) decode(of *spec.PassRequest, n int, temperature uint32, ids [][]int32) *spec.Pass {
	r.pass = spec.Pass{}
	switch of.Kind {
	case spec.PassChain:
		r.pass.Chain = r.decodeChain(n, temperature)
	case spec.PassSampled:
		r.pass.Children = r.decodeChildren(n, temperature, ids)
	default:
		r.pass.Outputs = r.decodeOutputs(n, filters(of.Sampling))
	}
	if of.Kind == spec.PassDivergence {
		r.pass.Divergences = r.decodeDivergences(n)
	}
	return &r.pass
}

// decodeOutputs decodes the outputs of n nodes.
func (r *results) decodeOutputs(n int, filtered bool) []spec.NodeOutput {
	records, drawn := r.of(r.records, n), r.of(r.filtered, n)
	for i := range n {
		out := &r.outputs[i]
		got := sample.Decode(records, i, len(out.TopIDs))
		out.Token, out.LogSumExp, out.Entropy = got.Token, got.LogSumExp, got.Entropy
		out.Threshold = float32(math.Inf(-1))
		if filtered {
			record := drawn[kernels.FilterWords*i:]
			out.Token, out.Threshold = int32(record[0]), math.Float32frombits(record[1])
		}
		for k := range out.TopIDs {
			out.TopIDs[k], out.TopLogits[k] = int32(got.IDs[k]), got.Values[k]
		}
		if !got.Finite() {
			out.Token = spec.NoToken
			for k := range out.TopIDs {
				out.TopIDs[k] = spec.NoToken
			}
		}
	}
	return r.outputs[:n]
}

// finite reports whether the logits of a node were finite, by its filter's record.
func (r *results) finite(node int, temperature uint32) bool {
	f := sample.DecodeFilter(r.of(r.filtered, node+1)[kernels.FilterWords*node:])
	return f.Finite(temperature)
}

func (r *results) decodeChain(n int, temperature uint32) []spec.ChainVerdict {
	words := r.of(r.verdicts, n)
	r.chain = resize(r.chain, n)
	for i := range n {
		r.chain[i] = spec.ChainVerdict{Accepted: words[sample.RejectWords*i] == 1,
			Token: int32(words[sample.RejectWords*i+1])}
		if !r.finite(i, temperature) {
			r.chain[i] = spec.ChainVerdict{Token: spec.NoToken}
		}
	}
	return r.chain
}

func (r *results) decodeChildren(n int, temperature uint32, ids [][]int32) []spec.TreeVerdict {
	words := r.of(r.verdicts, n)
	r.children = resize(r.children, n)
	for i := range r.children {
		place, token := words[treekernel.VerdictWords*i], int32(words[treekernel.VerdictWords*i+1])
		r.children[i] = spec.TreeVerdict{Child: -1, Token: token}
		if !r.finite(i, temperature) {
			r.children[i].Token = spec.NoToken
		} else if place != treekernel.NoChild {
			r.children[i].Child = ids[i][place]
		}
	}
	return r.children
}

// decodeDivergences decodes the distances of a chain of n nodes, whose outputs are decoded.
func (r *results) decodeDivergences(n int) []spec.Divergence {
	words := r.of(r.divergences, n-1)
	r.distance = resize(r.distance, n-1)
	for i := range r.distance {
		r.distance[i] = spec.Divergence{Distance: math.Float32frombits(words[sample.DivergenceWords*i]),
			Possible: words[sample.DivergenceWords*i+1] == 1 && r.outputs[i].Token != spec.NoToken}
	}
	return r.distance
}
