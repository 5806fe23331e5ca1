package spec

import "fmt"

// LogitReader is a Target that can tell single logits of its last pass. They cost a readback of their own.
type LogitReader interface {
	Target
	// Logits puts into dst the logit of tokens[i] after node nodes[i] of the tree that was verified last, as it
	// was when the token was drawn: shaped, before temperature and filters.
	Logits(nodes, tokens []int32, dst []float32) error
	// LogitNodes is the largest tree whose logits are all there after its pass.
	LogitNodes() int
}

// readable finds out whether the log-probabilities that the options ask for can be told.
func (r *request) readable() error {
	if !r.opts.LogProbs {
		return nil
	}
	reader, ok := r.target.(LogitReader)
	if !ok {
		return fmt.Errorf("spec: this target does not tell single logits, which log-probabilities need")
	}
	r.reader = reader
	return nil
}

// logProbs fills the event's log-probabilities of the run of tokens.
func (r *request) logProbs(v *Verdict) error {
	if r.reader == nil {
		return nil
	}
	n, e := len(r.tokens), &r.event
	if len(v.Outputs) == 0 {
		return fmt.Errorf("spec: this verifier does not tell what the target said of each node, which log-probabilities need; use the %s verifier", VerifierMatch)
	}
	for len(r.logits) < n {
		r.logits = append(r.logits, 0)
	}
	if err := r.reader.Logits(v.Path[:n], r.tokens, r.logits[:n]); err != nil {
		return err
	}
	for i, node := range v.Path[:n] {
		r.logits[i] -= v.Outputs[node].LogSumExp
	}
	e.LogProbs = r.logits[:n]
	return nil
}
