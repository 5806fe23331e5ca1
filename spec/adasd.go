package spec

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// adaSDMost is how many tokens AdaSD drafts a round at most.
const adaSDMost = 20

// AdaSD is the adaptive speculative decoding of "AdaSD: Adaptive Speculative Decoding for
// Efficient Language Model Inference", a lossy method that needs no settings. It
// has two thresholds, made of what it has seen of the request: T_g, the mean
// entropy of the rejected tokens, ends drafting after a token whose draft entropy
// exceeds it, and a drafted token other than the target's is accepted where the
// distance of both distributions is below T_v.
//
// It is a Verifier and a ChainRule over the same records. As a Verifier alone it
// judges chains of a fixed length, as a ChainRule alone it ends chains that
// another verifier judges; Parts that hold one AdaSD in both places do both.
type AdaSD struct {
	Variant string // of T_v: AdaSDMidpoint, which "" is too, AdaSDA, AdaSDB or AdaSDC
	Most    int    // tokens to draft a round
	Carry   bool   // keep the records from request to request
	Records *AdaSDRecords

	gaps []Divergence // of the nodes of the chain verified last; empty when the round had none
}

// AdaSDRecords are what AdaSD's thresholds are made of. The zero value is that of a new
// request.
type AdaSDRecords struct {
	Accepted, Rejected   AdaSDRecord
	Entropy              float64 // sum over the rejected tokens of their draft entropies, bits
	Rejections           int     // tokens in Entropy
	WithAccept, WithFail int     // rounds that accepted a token, rounds that rejected one
}

// AdaSDRecord sums the distances of judged tokens.
type AdaSDRecord struct {
	Distance float64 // sum of √JSD, base 2
	Tokens   int
}

func (r AdaSDRecord) mean() float64 { return r.Distance / float64(r.Tokens) }

var (
	_ Verifier  = (*AdaSD)(nil)
	_ ChainRule = (*AdaSD)(nil)
	_ Starter   = (*AdaSD)(nil)
	_ Observer  = (*AdaSD)(nil)
)

// adasd is the verifier or rule that the config names.
func (c Config) adasd() *AdaSD {
	a := &AdaSD{Variant: c.Variant, Most: min(c.Depth, adaSDMost), Carry: c.Carry, Records: c.Aids.AdaSD}
	if a.Records == nil {
		a.Records = &AdaSDRecords{}
	}
	return a
}

// Start forgets the last request, unless its records are carried on.
func (a *AdaSD) Start() {
	a.gaps = a.gaps[:0]
	if !a.Carry {
		*a.Records = AdaSDRecords{}
	}
}

// Lossy tells that accepted tokens need not be the target's.
func (a *AdaSD) Lossy() bool { return true }

// Plan drafts up to Most tokens.
func (a *AdaSD) Plan(Budget) Budget { return Budget{Levels: a.Most, Width: 1, Nodes: a.Most + 1} }

// Stop ends the chain after a token whose draft entropy exceeds T_g.
func (a *AdaSD) Stop(drawn []Drawn) bool { return bits(drawn[len(drawn)-1].Entropy) > a.Generation() }

// bits are nats in base 2.
func bits(nats float32) float64 { return float64(nats) / math.Ln2 }

// Generation is T_g in bits: the mean draft entropy of the rejected tokens, +Inf until there
// is one.
func (a *AdaSD) Generation() float64 {
	if a.Records.Rejections == 0 {
		return math.Inf(1)
	}
	return a.Records.Entropy / float64(a.Records.Rejections)
}

// Verification is T_v, a distance in [0, 1]. Without a variant it lies midway between the
// mean distances of accepted and of rejected tokens; variant A is that of
// accepted tokens, B weights both by how many tokens they are of, and C by how many rounds
// had such a token. It is 0, so that nothing is relaxed, until what it is made
// of exists.
func (a *AdaSD) Verification() float64 {
	r := a.Records
	if r.Accepted.Tokens == 0 || r.Rejected.Tokens == 0 && a.Variant != AdaSDA {
		return 0
	}
	accepted, rejected := r.Accepted.mean(), r.Rejected.mean()
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

// Verify implements Verifier. The draft is a chain drawn by d.Sampler, or a lone root.
func (a *AdaSD) Verify(ctx context.Context, target Target, d *Draft, s Sampling, v *Verdict) error {
	a.gaps = a.gaps[:0]
	if d.Tree.Len() == 1 {
		return Match{}.Verify(ctx, target, d, s, v)
	}
	if d.Sampler == nil || !d.Tree.IsChain() {
		return errors.New("spec: the adasd verifier needs a chain that was sampled, so that there are distributions to compare")
	}
	dt, ok := target.(DivergenceTarget)
	if !ok {
		return errors.New("spec: this target cannot measure how far the draft's distributions are from its own")
	}
	out, gaps, err := dt.VerifyDivergence(ctx, d.Tree, d.Sampler, s)
	if err != nil {
		return err
	}
	return a.judge(d.Tree, out, gaps, v)
}

// judge is Verify after the target's pass.
func (a *AdaSD) judge(tree *Tree, out []NodeOutput, gaps []Divergence, v *Verdict) error {
	if len(out) != tree.Len() || len(gaps) != tree.Len()-1 {
		return fmt.Errorf("spec: the target answered for %d nodes and compared %d of %d", len(out), len(gaps), tree.Len())
	}
	a.gaps = append(a.gaps[:0], gaps...)
	threshold := a.Verification()
	v.begin(out)
	v.Relaxed = append(v.Relaxed, false)
	for node := range gaps {
		if tree.Tokens[node+1] != out[node].Token && !(gaps[node].Possible && float64(gaps[node].Distance) < threshold) {
			v.Next = out[node].Token
			return nil
		}
		v.Path = append(v.Path, int32(node+1))
		v.Relaxed = append(v.Relaxed, tree.Tokens[node+1] != out[node].Token)
	}
	v.Next = out[len(gaps)].Token
	return nil
}

// Observe records what became of the judged tokens of a round: all accepted ones and the
// first that was not. What follows a rejection or a cut of the run is not judged.
func (a *AdaSD) Observe(e *Event) {
	gaps := a.gaps
	a.gaps = a.gaps[:0]
	if e.Proposal == nil || len(e.Proposal.Drawn) == 0 || e.Tree.Len() != len(e.Proposal.Drawn)+1 {
		return
	}
	r := a.Records
	accepted := len(e.Path) - 1
	if len(gaps) > 0 {
		for _, g := range gaps[:accepted] {
			r.Accepted.Distance += float64(g.Distance)
			r.Accepted.Tokens++
		}
		if accepted < e.Judged {
			r.Rejected.Distance += float64(gaps[accepted].Distance)
			r.Rejected.Tokens++
		}
	}
	if accepted > 0 {
		r.WithAccept++
	}
	if accepted < e.Judged {
		r.WithFail++
		r.Entropy += bits(e.Proposal.Drawn[accepted].Entropy)
		r.Rejections++
	}
}
