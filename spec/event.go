package spec

import "time"

// Origin is where a committed token comes from.
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

// Finish is why a generation ended; "" while it goes on.
type Finish string

const (
	FinishEOS     Finish = "eos"     // an end-of-sequence id was committed
	FinishStop    Finish = "stop"    // Options.Cut asked for it (stop strings)
	FinishLength  Finish = "length"  // Options.MaxTokens were produced
	FinishContext Finish = "context" // prompt and output fill the target's context
	FinishAborted Finish = "aborted" // the context was cancelled
)

// Event is one round: what was drafted, what the target made of it and what it
// cost. The engine reuses the event and all it points to: it is valid until
// the function that receives it returns.
type Event struct {
	Round   int      // from 1; a closing event without a round repeats the last number
	Tokens  []int32  // committed by this round, in order; empty only in a closing event
	Origins []Origin // of each token
	// LogProbs are of each token: ln of its probability in the target's softmax at temperature 1, of the logits
	// as a guide changed them. Nil unless Options.LogProbs asked for them.
	LogProbs []float32
	// Tree is what the target verified, a lone root for plain decoding. Nil in a
	// closing event, as are Path and Levels.
	Tree *Tree
	// Path holds the nodes of Tree whose tokens are committed, root first.
	Path []int32
	// Proposal is the whole draft, Tree and Levels included; nil in a closing event.
	Proposal *Draft
	// Levels are the draft's, where it drafts by levels.
	Levels []Level
	// Outputs are what the target said of every node, where the verifier knows.
	Outputs []NodeOutput
	// Judged is the depth down to which the tree counts as judged: its whole depth,
	// or less when the round's run of tokens was cut (end of sequence, stop
	// string), for what comes after a cut was neither accepted nor rejected.
	Judged int

	// Joint tells that draft and verification were one run on the device, whose time is all in Verify.
	Joint    bool
	Draft    time.Duration // proposing
	Verify   time.Duration // the target's pass and the verdict
	Readback time.Duration // the part of both spent waiting for results, where models tell
	Host     time.Duration // the rest of the round: planning, scanning, committing

	Warming bool // the round decoded plainly because drafting was not ready, see Options.Ready
	Finish  Finish
	Stats   *Stats // of the request so far, this round included
}
