package spec

import "time"

// Origin names the source of a committed token.
type Origin uint8

const (
	Plain     Origin = iota // from a pass that had nothing to verify: plain decoding
	Accepted                // drafted, and the target's own choice
	Relaxed                 // drafted, and accepted by a lossy verifier although the target chose another
	Corrected               // the target's token where no drafted one matched
	Bonus                   // the target's token after a fully accepted path
)

var originNames = [...]string{"plain", "accepted", "relaxed", "corrected", "bonus"}

func (o Origin) String() string {
	if int(o) < len(originNames) {
		return originNames[o]
	}
	return "unknown"
}

// MarshalText gives the name, so that JSON shows words and not numbers.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Finish names the reason that a generation ended; "" while it goes on.
type Finish string

const (
	FinishEOS     Finish = "eos"     // an end-of-sequence id was committed
	FinishStop    Finish = "stop"    // Options.Cut asked for it (stop strings)
	FinishLength  Finish = "length"  // Options.MaxTokens were produced
	FinishContext Finish = "context" // prompt and output fill the target's context
	FinishAborted Finish = "aborted" // the context was cancelled
)

// Event is one round: the draft, the target's answer and the cost. The engine reuses the event and all it points
// to, so it is valid only until its receiver returns.
type Event struct {
	Round   int      // from 1; a closing event without a round repeats the last number
	Tokens  []int32  // committed by this round, in order; empty only in a closing event
	Origins []Origin // of each token
	// LogProbs holds, for each token, ln of its probability in the target's softmax at temperature 1, of the logits as
	// a constraint changed them. Nil unless Options.LogProbs asked for them.
	LogProbs []float32
	// Tree is the tree that the target verified; for plain decoding a root alone. It is nil in a closing event, as
	// are Path and Levels.
	Tree *Tree
	// Path holds the nodes of Tree whose tokens are committed, root first.
	Path []int32
	// Proposal is the complete draft, Tree and Levels included; nil in a closing event.
	Proposal *Draft
	// Levels are the draft's, where it drafts by levels.
	Levels []Level
	// Outputs are the target's for every node, if the verifier has them.
	Outputs []NodeOutput
	// Divergences compare draft and target at every node of a chain but the last, if the verifier asked for it.
	Divergences []Divergence
	// VerifiedDepth is the depth down to which the tree counts as verified: its full depth, or less if the round's
	// run of tokens was cut (end of sequence, stop string), because tokens after a cut were neither accepted nor
	// rejected.
	VerifiedDepth int

	// Joint says that draft and verification were one run on the device, with all of its time in Verify.
	Joint    bool
	Draft    time.Duration // proposing
	Verify   time.Duration // the target's pass and the verdict
	Readback time.Duration // the part of both spent waiting for results, where models tell
	Host     time.Duration // the rest of the round: planning, scanning, committing

	Finish Finish
	Stats  *Stats // of the request so far, this round included
}
