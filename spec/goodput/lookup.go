package goodput

import "slices"

// history predicts the next token from the request's own tokens. It is a context model with prediction by partial
// matching and escape method A (Cleary and Witten, "Data Compression Using Adaptive Coding and Partial String
// Matching", 1984): the longest matches come first, and shorter ones share the probability that is left.
type history struct {
	seq  []int32
	last map[int32]int32 // position of the latest occurrence of each token in seq
	prev []int32         // of each position, the position of the occurrence before it, or -1
	room []guess         // scratch of after
	best []guess         // result of the last call of after
}

// guess is a predicted token.
type guess struct {
	token int32
	score float64             // the context model's probability, in (0, 1)
	count [maxOrder + 1]int32 // occurrences after a context of at least so many matching tokens
}

const (
	maxOrder   = 10 // tokens of the longest context: bounds the time of a round
	maxPlaces  = 48 // latest occurrences of the last token that after reads: bounds the time of a round
	maxGuesses = 3  // tokens proposed after one context. Held by TestLookupLongestContextSpeaksFirst
	// leastChance is the score of tokens that the lookup does not propose. Without it the figure of
	// TestBusyMachinesDoNotMislead falls by 1.3 %.
	leastChance = 0.02
)

// reset empties the history.
func (h *history) reset() {
	h.seq, h.prev = h.seq[:0], h.prev[:0]
	if h.last == nil {
		h.last = map[int32]int32{}
	}
	clear(h.last)
}

// extend appends the tokens of seq beyond those already known. seq starts with the known ones.
func (h *history) extend(seq []int32) {
	for i := len(h.seq); i < len(seq); i++ {
		h.seq = append(h.seq, seq[i])
		before, ok := h.last[seq[i]]
		if !ok {
			before = -1
		}
		h.prev, h.last[seq[i]] = append(h.prev, before), int32(i)
	}
}

// context appends the latest tokens of the history and path to dst, at most maxOrder, the last one first.
func (h *history) context(dst, path []int32) []int32 {
	for i := len(path) - 1; i >= 0 && len(dst) < maxOrder; i-- {
		dst = append(dst, path[i])
	}
	for i := len(h.seq) - 1; i >= 0 && len(dst) < maxOrder; i-- {
		dst = append(dst, h.seq[i])
	}
	return dst
}

// after predicts the token after the history followed by path: at most maxGuesses, likeliest first, and of equal
// scores the latest occurrence first. The result is valid until the next call.
func (h *history) after(path []int32) []guess {
	h.room, h.best = h.room[:0], h.best[:0]
	var recent [maxOrder]int32
	context := h.context(recent[:0], path)
	if len(context) == 0 {
		return nil
	}
	place, ok := h.last[context[0]]
	if !ok {
		return nil
	}
	var all [maxOrder + 1]int32 // places that match in so many tokens, then in at least so many
	longest := 0
	for places := 0; place >= 0 && places < maxPlaces; place, places = h.prev[place], places+1 {
		if int(place)+1 >= len(h.seq) {
			continue
		}
		order := 1
		for order < len(context) && int(place)-order >= 0 && h.seq[int(place)-order] == context[order] {
			order++
		}
		next, g := h.seq[place+1], 0
		for g < len(h.room) && h.room[g].token != next {
			g++
		}
		if g == len(h.room) {
			h.room = append(h.room, guess{token: next})
		}
		all[order]++
		h.room[g].count[order]++
		longest = max(longest, order)
	}
	for o := longest; o > 1; o-- {
		all[o-1] += all[o]
		for g := range h.room {
			h.room[g].count[o-1] += h.room[g].count[o]
		}
	}
	escape := 1.0
	for o := longest; o >= 1; o-- {
		for g := range h.room {
			h.room[g].score += escape * float64(h.room[g].count[o]) / float64(all[o]+1)
		}
		escape /= float64(all[o] + 1)
	}
	for i := range h.room {
		h.rank(&h.room[i])
	}
	return h.best
}

// rank inserts a guess into the best ones, after guesses of the same score.
func (h *history) rank(g *guess) {
	at := len(h.best)
	for at > 0 && h.best[at-1].score < g.score {
		at--
	}
	if at == maxGuesses {
		return
	}
	h.best = slices.Insert(h.best[:min(len(h.best), maxGuesses-1)], at, *g)
}
