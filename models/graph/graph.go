// Package graph puts a model on a device. It loads the weights that an arch.Model lists, allocates the workspace and
// the KV cache, chooses kernels, and records passes: it walks the typed parts of the model's layers and fuses
// dispatches where kernels allow it. On a ledger or a dry run the same code counts bytes or lists kernels.
package graph

import (
	"foretoken/models/arch"
	"foretoken/models/tune"
	"foretoken/webgpu/kernels"
)

// Graph is a model on a device: its weights, the workspace that its passes share and the kernels chosen for it. The
// sequences that passes read and extend are their callers'. It is not safe for concurrent use.
type Graph struct {
	*Resources
	Arch    *arch.Model
	Options Options // complete
	Kernels *tune.Tuning
	Space   Workspace
	Single  bool // record products with the pipelines of single rows, which give the same bits

	embed, output *matrix
	outNorm       kernels.View
	headNorm      kernels.View // outNorm times the multiplier of logits
	ones          kernels.View // gain of the norms of heads whose own gain follows the rotation: (2, head)
	layers        []layer
	ropes         map[*arch.Rope]kernels.View
	taps          taps
	head          *head // nil unless the model is a head

	file struct {
		params int64
		quant  string // the storage type of most weights
	}
	weightBytes, kvBytes int64 // parts of Bytes
}

// layer holds the weights of one block. A vector that the architecture lacks is empty.
type layer struct {
	mixNorm, ffnNorm      kernels.View // of what the mix and the network read
	mixPost, ffnPost      kernels.View // of what they add to the residual stream
	mixInner, ffnInner    kernels.View // of the inputs of out and of down
	qkv, out, gates, down *matrix
	bias                  kernels.View // of a row of qkv
	qkNorm                kernels.View // of queries, then of keys
	heads                 kernels.Heads
	span                  int // most positions that a row attends to
	width                 int // of the feed-forward network
	mix                   *arch.Attention
}

// attended returns the width of a row of the attention's output.
func (y *layer) attended() int { return y.heads.Query * y.heads.Dim }

// eps returns the epsilon of the norms of the residual stream. The stream is kept divided by the multiplier of what
// blocks add, so that they add it as it is; the norms do not see the division.
func (g *Graph) eps() float64 {
	s := g.Arch.Residual
	return g.Arch.Eps / (s * s)
}

// LogitRows returns the first n rows of logits.
func (g *Graph) LogitRows(n int) kernels.Logits {
	return kernels.Logits{View: g.Space.Logits, Rows: n, Vocab: g.Options.Vocab, Stride: g.Space.Stride}
}
