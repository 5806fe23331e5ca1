package spec

// PhiStep is the width in nats of the bars of BinStats.Phi.
const PhiStep = 0.25

// BinStats counts the rounds that fell in one entropy bin.
type BinStats struct {
	Rounds   int `json:"rounds"`
	Nodes    int `json:"tokens_verified"`
	Levels   int `json:"levels"` // of tokens drafted, summed over rounds
	Accepted int `json:"accepted"`
	// Full counts verified rounds whose accepted path goes down to the last level of the tree.
	Full int `json:"full"`
	// TCR is a histogram over verified rounds: element i counts rounds whose last accepted
	// node, or the root where there is none, has rank i+1 by V among the tree's nodes.
	TCR []int `json:"tcr"`
	// Phi is a histogram: element i counts rounds with Φ from i·PhiStep up to (i+1)·PhiStep.
	Phi []int `json:"phi"`
}

// countBin takes in a round of HeteroSpec.
func (s *Stats) countBin(e *Event) {
	if e.Proposal == nil || e.Proposal.Bin < 1 {
		return
	}
	for len(s.Bins) < e.Proposal.Bin {
		s.Bins = append(s.Bins, BinStats{})
	}
	b := &s.Bins[e.Proposal.Bin-1]
	b.Rounds++
	b.Nodes += e.Tree.Len()
	b.Levels += len(e.Levels)
	b.Accepted += len(e.Path) - 1
	b.Phi = countAt(b.Phi, int(e.Proposal.Phi/PhiStep))
	if depth := e.Tree.Depth(); e.VerifiedDepth == depth {
		b.TCR = countAt(b.TCR, e.Tree.Rank(e.Path[len(e.Path)-1])-1)
		if len(e.Path)-1 == depth {
			b.Full++
		}
	}
}

func countAt(histogram []int, i int) []int {
	for len(histogram) <= i {
		histogram = append(histogram, 0)
	}
	histogram[i]++
	return histogram
}
