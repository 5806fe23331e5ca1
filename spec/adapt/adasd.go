package adapt

import (
	"fmt"
	"math"

	"foretoken/spec"
	"foretoken/spec/draft"
)

// AdaSDMost is the default maximum of tokens that AdaSD drafts per round.
const AdaSDMost = 20

// The variants of AdaSD's T_v.
const (
	AdaSDMidpoint = "midpoint" // midway between the mean distances of accepted and rejected tokens
	AdaSDA        = "A"        // the mean distance of accepted tokens
	AdaSDB        = "B"        // both means, weighted by tokens
	AdaSDC        = "C"        // both means, weighted by rounds
)

// AdaSD is the adaptive speculative decoding of "AdaSD: Adaptive Speculative Decoding for Efficient Language Model
// Inference", a lossy method without hyperparameters. It has two thresholds, computed from the records of the
// request. T_g, the mean entropy of the rejected tokens, ends drafting after a token whose draft entropy exceeds
// it. T_v relaxes verification: a drafted token that differs from the target's is accepted if the distance of the
// two distributions is below T_v.
//
// AdaSD implements Verifier and ChainRule on the same records. As a Verifier alone it verifies chains of a fixed
// length; as a ChainRule alone it ends chains for another verifier. Parts that hold one AdaSD in both places do
// both.
type AdaSD struct {
	Variant string // of T_v: AdaSDMidpoint (the default for ""), AdaSDA, AdaSDB or AdaSDC
	Most    int    // tokens drafted per round, at most
	Carry   bool   // keep the records from request to request
	Records *AdaSDRecords
}

// AdaSDRecords hold the sums behind AdaSD's thresholds. The zero value starts a new request.
type AdaSDRecords struct {
	spec.DistanceStats
	Entropy              float64 // sum over the rejected tokens of their draft entropies, bits
	Rejections           int     // tokens in Entropy
	WithAccept, WithFail int     // rounds that accepted a token, rounds that rejected one
}

var (
	_ spec.Verifier   = (*AdaSD)(nil)
	_ draft.ChainRule = (*AdaSD)(nil)
	_ spec.Learner    = (*AdaSD)(nil)
)

// Start clears the records of the last request unless Carry is set.
func (a *AdaSD) Start() {
	if !a.Carry {
		*a.Records = AdaSDRecords{}
	}
}

// NextBudget drafts up to Most tokens.
func (a *AdaSD) NextBudget(spec.Budget) spec.Budget { return spec.ChainBudget(a.Most) }

// Stop ends the chain after a token whose draft entropy exceeds T_g.
func (a *AdaSD) Stop(drawn []spec.Drawn) bool {
	return bits(drawn[len(drawn)-1].Entropy) > a.Generation()
}

// bits converts nats to bits.
func bits(nats float32) float64 { return float64(nats) / math.Ln2 }

// Generation returns T_g in bits: the mean draft entropy of the rejected tokens, or +Inf before the first
// rejection.
func (a *AdaSD) Generation() float64 {
	if a.Records.Rejections == 0 {
		return math.Inf(1)
	}
	return a.Records.Entropy / float64(a.Records.Rejections)
}

// Verification returns T_v, a distance in [0, 1]. The default lies midway between the mean distances of accepted
// and of rejected tokens. Variant A takes the mean of accepted tokens; B weights both means by their tokens, C by
// the rounds that had such a token. It returns 0, which relaxes nothing, until the means that it needs exist.
func (a *AdaSD) Verification() float64 {
	r := a.Records
	if r.Accepted.Tokens == 0 || r.Rejected.Tokens == 0 && a.Variant != AdaSDA {
		return 0
	}
	accepted, rejected := r.Accepted.Mean(), r.Rejected.Mean()
	mix := func(x, y int) float64 {
		return (float64(x)*accepted + float64(y)*rejected) / float64(x+y)
	}
	switch a.Variant {
	case AdaSDA:
		return accepted
	case AdaSDB:
		return mix(r.Accepted.Tokens, r.Rejected.Tokens)
	case AdaSDC:
		return mix(r.WithAccept, r.WithFail)
	}
	return mix(1, 1)
}

func (a *AdaSD) Pass(spec.Sampling) spec.PassKind { return spec.PassDivergence }

func (a *AdaSD) Accept(tree *spec.Tree, p *spec.Pass, v *spec.Verdict) error {
	out, gaps := p.Outputs, p.Divergences
	if len(gaps) != tree.Len()-1 {
		return fmt.Errorf("spec: the target compared %d of %d distributions", len(gaps), tree.Len()-1)
	}
	threshold := a.Verification()
	v.Reset(out)
	v.Relaxed = append(v.Relaxed, false)
	for node := range gaps {
		if tree.Tokens[node+1] != out[node].Token &&
			!(gaps[node].Possible && float64(gaps[node].Distance) < threshold) {
			v.Next = out[node].Token
			return nil
		}
		v.Path = append(v.Path, int32(node+1))
		v.Relaxed = append(v.Relaxed, tree.Tokens[node+1] != out[node].Token)
	}
	v.Next = out[len(gaps)].Token
	return nil
}

// Observe records the verified tokens of a round: all accepted ones and the first rejected one. Tokens after a
// rejection or a cut of the run are not verified.
func (a *AdaSD) Observe(e *spec.Event) {
	if e.Proposal == nil || len(e.Proposal.Drawn) == 0 || e.Tree.Len() != len(e.Proposal.Drawn)+1 {
		return
	}
	r := a.Records
	r.Count(e)
	accepted := len(e.Path) - 1
	if accepted > 0 {
		r.WithAccept++
	}
	if accepted < e.VerifiedDepth {
		r.WithFail++
		r.Entropy += bits(e.Proposal.Drawn[accepted].Entropy)
		r.Rejections++
	}
}
