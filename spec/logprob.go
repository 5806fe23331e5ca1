package spec

import "errors"

// logProbs fills the event's log-probabilities of the run of tokens.
func (r *request) logProbs(v *Verdict) error {
	if !r.opts.LogProbs {
		return nil
	}
	n, e := len(r.tokens), &r.event
	if len(v.Outputs) == 0 {
		return errors.New("spec: log-probabilities need the target's output for each node, which this verifier has " +
			"not; use the match verifier")
	}
	for len(r.logits) < n {
		r.logits = append(r.logits, 0)
	}
	if err := r.target.Logits(v.Path[:n], r.tokens, r.logits[:n]); err != nil {
		return err
	}
	for i, node := range v.Path[:n] {
		r.logits[i] -= v.Outputs[node].LogSumExp
	}
	e.LogProbs = r.logits[:n]
	return nil
}
