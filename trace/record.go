package trace

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"foretoken"
	"foretoken/spec"
)

// Recorder records one request after another. It allocates only where a request is longer than all before.
type Recorder struct {
	piece   func(id int32) []byte
	prompt  string
	run     int    // rounds so far
	kept    int    // of these, recorded
	rounds  []byte // recorded rounds without their trees
	trees   []byte
	last    int  // where the last round's tree begins
	cut     bool // a bound is met: no more trees
	elapsed uint64
	finish  spec.Finish
	rest    string

	entries map[int32]uint64 // dictionary of the trees: token → index
	steps   []uint64         // of each node of the last tree: -V in steps
	tree    Tree
	draft   comparison
}

// NewRecorder returns a recorder. piece returns a token's bytes, as tokenizer.Tokenizer.Piece does.
func NewRecorder(piece func(id int32) []byte) *Recorder {
	return &Recorder{piece: piece, entries: map[int32]uint64{}}
}

// Begin starts a request that continues prompt, which may be empty, and forgets the one before.
func (r *Recorder) Begin(prompt string) {
	if most := len(prompt) - MaxPrompt; most > 0 {
		for most < len(prompt) && !utf8.RuneStart(prompt[most]) {
			most++
		}
		prompt = prompt[most:]
	}
	r.prompt = strings.ToValidUTF8(prompt, "\ufffd")
	r.run, r.kept, r.elapsed, r.cut, r.finish, r.rest = 0, 0, 0, false, "", ""
	r.rounds, r.trees, r.last = r.rounds[:0], r.trees[:0], 0
	clear(r.entries)
}

// Figures are the numbers of a round's tree.
type Figures struct {
	Pruned int // drafted nodes that were not verified
	// Means over the accepted path, root included, of the entropies known after its nodes, in nats; -1 if none is.
	Entropy, DraftEntropy float64
	Bin                   int     // HeteroSpec's entropy bin, from 1; 0 without bins
	Phi                   float64 // of the round's meta-path in nats, where there is a bin
}

// Add records a round, which ended elapsed after the begin of the request. A closing event, which has no tree, ends
// the trace.
func (r *Recorder) Add(e *foretoken.Event, elapsed time.Duration) Figures {
	r.last = len(r.trees)
	r.finish = e.Round.Finish
	if e.Round.Tree == nil || len(e.Tokens) == 0 {
		r.rest += strings.ToValidUTF8(e.Text, "\ufffd")
		return Figures{Entropy: -1, DraftEntropy: -1}
	}
	r.draft.fill(&r.tree, e.Round)
	r.run++
	r.addRound(e, elapsed)
	if !r.cut {
		r.addTree()
	}
	t := &r.tree
	return Figures{Pruned: t.Pruned.Total, Entropy: mean(t.Entropies, t.Path),
		DraftEntropy: mean(t.DraftEntropies, t.Path), Bin: t.Bin, Phi: t.Phi}
}

// mean is that of the known values, which are not negative, at nodes of a path; -1 without any.
func mean(values []float32, path []int32) float64 {
	sum, n := 0.0, 0
	for _, node := range path {
		if int(node) < len(values) && values[node] >= 0 {
			sum, n = sum+float64(values[node]), n+1
		}
	}
	if n == 0 {
		return -1
	}
	return sum / float64(n)
}

// LastTree returns the tree of the last round as the trace holds it, which follows those of the rounds before it. It
// is empty where the trace has no more trees, and valid until the next call.
func (r *Recorder) LastTree() []byte { return r.trees[r.last:] }

// Bytes returns the trace so far.
func (r *Recorder) Bytes() []byte {
	b := make([]byte, 0, len(r.prompt)+len(r.rest)+len(r.rounds)+len(r.trees)+32)
	b = appendText(append(b, Version), r.prompt)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.run)), uint64(r.kept))
	b = binary.AppendUvarint(b, uint64(slices.Index(finishes[:], r.finish)))
	b = append(appendText(b, r.rest), r.rounds...)
	return append(b, r.trees...)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func (r *Recorder) addRound(e *foretoken.Event, elapsed time.Duration) {
	if r.kept < r.run-1 {
		return
	}
	before := len(r.rounds)
	b := r.rounds
	for _, d := range [...]time.Duration{e.Round.Draft, e.Round.Verify, e.Round.Readback, e.Round.Host} {
		b = binary.AppendUvarint(b, units(d))
	}
	now := max(units(elapsed), r.elapsed)
	b = binary.AppendUvarint(binary.AppendUvarint(b, now-r.elapsed), uint64(len(e.Tokens)))
	r.elapsed = now
	for _, t := range e.Tokens {
		text := strings.ToValidUTF8(t.Text, "\ufffd")
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(t.ID)), uint64(len(text))<<3|uint64(t.Kind))
		b = append(b, text...)
	}
	if r.rounds = b; len(b) > mostRounds || r.kept == MaxRounds {
		r.rounds, r.cut = b[:before], true
		return
	}
	r.kept++
}

// units is a time in the unit of the format.
func units(d time.Duration) uint64 {
	return min(uint64(max(0, d+unit/2)/unit), math.MaxInt32)
}

// addTree records the tree of the last round.
func (r *Recorder) addTree() {
	t, b := &r.tree, r.trees
	known := byte(0)
	for i, is := range [...]bool{len(t.Entropies) > 0, len(t.DraftEntropies) > 0, t.Bin > 0} {
		if is {
			known |= 1 << i
		}
	}
	b = append(binary.AppendUvarint(b, uint64(t.Len())), known)
	b = r.appendTokens(b, t.Tokens)
	last := int32(0)
	for _, parent := range t.Parents[1:] {
		by := parent - last
		b, last = binary.AppendUvarint(b, uint64(uint32(by<<1^by>>31))), parent
	}
	r.steps = append(r.steps[:0], 0)
	for i, v := range t.Scores[1:] {
		above := r.steps[t.Parents[i+1]]
		at := fall(v, above)
		b = binary.AppendUvarint(b, at-above)
		r.steps = append(r.steps, at)
	}
	b = binary.AppendUvarint(b, uint64(t.Path[len(t.Path)-1]))
	for _, h := range t.Entropies {
		b = binary.AppendUvarint(b, steps(float64(h)))
	}
	for _, h := range t.DraftEntropies {
		at := uint64(0)
		if h >= 0 {
			at = steps(float64(h)) + 1
		}
		b = binary.AppendUvarint(b, at)
	}
	if t.Bin > 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(t.Bin)), steps(t.Phi))
	}
	p := &t.Pruned
	if b = binary.AppendUvarint(b, uint64(p.Total)); p.Total > 0 {
		b = r.appendTokens(binary.AppendUvarint(b, uint64(len(p.Tokens))), p.Tokens)
		for _, parent := range p.Parents {
			b = binary.AppendUvarint(b, uint64(parent))
		}
		above := uint64(0)
		for _, v := range p.Scores {
			at := fall(v, above)
			b, above = binary.AppendUvarint(b, at-above), at
		}
	}
	if r.trees = b; len(b) > mostTrees {
		r.trees, r.cut = b[:r.last], true
	}
}

// appendTokens writes tokens by the dictionary, which gets those that it lacks.
func (r *Recorder) appendTokens(b []byte, tokens []int32) []byte {
	for _, id := range tokens {
		at, known := r.entries[id]
		if !known {
			at = uint64(len(r.entries))
			r.entries[id] = at
		}
		if b = binary.AppendUvarint(b, at); !known {
			text := strings.ToValidUTF8(string(r.piece(id)), "\ufffd")
			b = appendText(binary.AppendUvarint(b, uint64(id)), text)
		}
	}
	return b
}

// fall is a score in steps below the root's, at least and not much more than above. The score itself is rounded, so
// that errors do not add up along a path.
func fall(score float32, above uint64) uint64 {
	at := above + MaxNats*scoreSteps
	if score > -math.MaxFloat32 {
		at = min(at, uint64(math.Round(max(0, -float64(score))*scoreSteps)))
	}
	return max(at, above)
}

// steps is an entropy or Φ, of some nats, in steps.
func steps(nats float64) uint64 {
	if nats < MaxNats {
		return uint64(math.Round(max(nats, 0) * entropySteps))
	}
	return MaxNats * entropySteps
}
