// Package trace records the rounds of a request in a compact form: what was drafted, what was verified, what was
// kept, and the time it took. A player draws every round from it, without an engine and without models.
//
// A trace is a sequence of bytes. A number is an unsigned integer in groups of seven bits, the lowest first; every
// byte but the last has its eighth bit set (varint). A number is at most 2^31-1 and takes no more bytes than it needs.
// A text is the number of its bytes, then valid UTF-8. All of the following are numbers unless it says otherwise.
//
//	version     1
//	prompt      text: the end of the text that was continued, at most MaxPrompt bytes
//	run         rounds of the request
//	rounds      rounds recorded here, the first ones; fewer than run where the trace met its bounds
//	finish      0: none, 1: eos, 2: stop, 3: length, 4: context, 5: aborted
//	rest        text: what became certain when the request ended, after the text of all tokens
//
// Then each round in order, from 1:
//
//	draft, verify, readback, host    four numbers, in units of 10 µs; readback is a part of draft and verify
//	elapsed     from the last round's end, or the begin of the request, to this round's end, in units of 10 µs
//	tokens      committed tokens, at least 1; for each of them
//	  id        of the token
//	  kind      8 × the bytes of its text + 0: plain, 1: accepted, 2: relaxed, 3: corrected, 4: bonus
//	  text      that many bytes of UTF-8: what became certain with the token; all of them joined are the text
//
// Then the tree of each round in order, from the first. The trace may end after any tree: to shorten it, cut it there.
// Nodes are numbered from the root, 0, which holds the last token before the round. A node's parent has a lower number.
//
//	nodes       of the tree that was verified, 1 to spec.MaxNodes; plain decoding has the root alone
//	known       1 if the target's entropies follow + 2 for the draft's + 4 for bin and phi
//	tokens      a token (see below) for each node
//	parents     for each node but the root: its parent's number less that of the last node's parent, which is 0 at
//	            first, as a signed number: 0, -1, 1, -2, ... are 0, 1, 2, 3, ...
//	scores      for each node but the root: how far its score lies below its parent's, in 1/32 nat
//	last        the last node that was accepted; the accepted path leads from the root to it. 0: none was
//	entropies   of the target's distribution after each node, in 1/16 nat, if known
//	entropies   of the draft's distribution after each node, in 1/16 nat, plus 1; 0 where unknown. If known
//	bin, phi    HeteroSpec's entropy bin, from 1, and Φ of the round's meta-path in 1/16 nat, if known
//	pruned      drafted nodes that were not verified
//	shown       of these, how many follow, best score first, at most MaxPruned; only where pruned > 0
//	tokens      a token for each of them
//	parents     for each: a node of the tree, or nodes + the index of an earlier one in this list
//	scores      for each: how far its score lies below the last one's, which is 0 at first, in 1/32 nat
//
// A token of a tree is an index in a dictionary that is empty at first. The index that is one beyond its end adds an
// entry, whose id and text follow. Bytes that are no UTF-8 by themselves are U+FFFD.
//
// A score is V, the sum of ln q along the path from the root, whose score is 0; scores fall along a path. MaxNats is
// the greatest entropy, Φ and fall. The kinds of a round's tokens say which nodes of the accepted path are relaxed: its
// token i is node i+1 of the path.
package trace

import (
	"time"

	"foretoken"
	"foretoken/spec"
)

// Version is the first number of a trace.
const Version = 1

// Bounds of what is recorded. A request beyond them keeps its first rounds, and of these the first trees.
const (
	MaxPrompt = 64 << 10 // bytes
	MaxRounds = 1 << 16
	MaxPruned = 32 // a tree; EAGLE-2 drafts 510 nodes and verifies 59
	MaxBytes  = 4 << 20

	mostRounds = 1 << 20 // bytes of rounds without their trees
	mostTrees  = 2 << 20 // bytes of trees
)

// Steps in a nat.
const (
	scoreSteps   = 32
	entropySteps = 16
)

// MaxNats bounds entropies, Φ and how far a score lies below another; what is more, or NaN, counts as this.
const MaxNats = 1024

// unit is the unit of times.
const unit = 10 * time.Microsecond

// finishes are the reasons that a request ended, by their numbers.
var finishes = [...]spec.Finish{"", spec.FinishEOS, spec.FinishStop, spec.FinishLength, spec.FinishContext,
	spec.FinishAborted}

// Trace is a recorded request.
type Trace struct {
	Prompt string
	Run    int // rounds of the request; more than len(Rounds) where the trace met its bounds
	Rounds []Round
	Finish spec.Finish // "" while the request was running
	Rest   string      // text that became certain at the end, after that of all tokens
}

// Round is a round of a trace.
type Round struct {
	Tokens  []foretoken.Token // without log-probabilities
	Elapsed time.Duration     // from the begin of the request to the end of the round

	Draft, Verify, Readback, Host time.Duration // as in spec.Event

	Tree *Tree // nil where the trace has no more trees
}

// Tree holds the tokens that a round drafted, and those that its pass kept. A trace rounds its scores to 1/32 nat, its
// entropies and Φ to 1/16 nat.
type Tree struct {
	spec.Tree
	Texts []string // of each node
	Path  []int32  // the accepted path, root included

	// Of the distributions after each node, in nats. Entropies are the target's, empty where unknown. DraftEntropies
	// are the draft's, -1 for nodes that it was not asked about, empty where none is known.
	Entropies, DraftEntropies []float32

	Bin int     // HeteroSpec's entropy bin, from 1; 0 without bins
	Phi float64 // of the round's meta-path in nats, where there is a bin

	Pruned Pruned
}

// Pruned are drafted tokens that the target was not asked about, best first: those of them with the greatest V. All
// lists have the same length, at most MaxPruned.
type Pruned struct {
	Tokens  []int32
	Texts   []string
	Parents []int32   // a node of the tree; from the tree's length on, of this list
	Scores  []float32 // V, the sum of ln q along the path
	Total   int       // how many there were
}
