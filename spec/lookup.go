package spec

import "slices"

// history predicts what follows from what followed before: a context model over the
// request's own tokens, whose longest matches speak first and leave the rest of the
// probability to shorter ones (prediction by partial matching, Cleary and Witten,
// "Data Compression Using Adaptive Coding and Partial String Matching", 1984, with
// escape method A).
type history struct {
	seq  []int32
	at   map[int32][]int32 // of each token, the places it is at
	room []guess
}

// guess is a token that followed before.
type guess struct {
	token int32
	score float64 // the context model's probability
	count [maxOrder + 1]int32
	order int32 // tokens of the longest context that it followed
}

const (
	maxOrder    = 10 // tokens of the longest context
	maxPlaces   = 48 // latest places looked at
	maxGuesses  = 3  // tokens proposed after one context
	leastChance = 0.02
)

func (h *history) reset() {
	h.seq, h.at = h.seq[:0], map[int32][]int32{}
}

// extend takes in the committed tokens, of which it knows the beginning.
func (h *history) extend(seq []int32) {
	for i := len(h.seq); i < len(seq); i++ {
		h.seq = append(h.seq, seq[i])
		h.at[seq[i]] = append(h.at[seq[i]], int32(i))
	}
}

// after gives what may follow the history and then path, likeliest first, later
// occurrences before earlier ones. The result is valid until the next call.
func (h *history) after(path []int32) []guess {
	h.room = h.room[:0]
	// last is token i from the end of the history and path, -1 before the beginning.
	last := func(i int) int32 {
		if i < len(path) {
			return path[len(path)-1-i]
		}
		if i -= len(path); i < len(h.seq) {
			return h.seq[len(h.seq)-1-i]
		}
		return -1
	}
	places := h.at[last(0)]
	if len(places) > maxPlaces {
		places = places[len(places)-maxPlaces:]
	}
	var all [maxOrder + 1]int32 // places that match in at least so many tokens
	for p := len(places) - 1; p >= 0; p-- {
		place := int(places[p])
		if place+1 >= len(h.seq) {
			continue
		}
		order := 1
		for order < maxOrder && place-order >= 0 && h.seq[place-order] == last(order) {
			order++
		}
		next := h.seq[place+1]
		g := slices.IndexFunc(h.room, func(g guess) bool { return g.token == next })
		if g < 0 {
			g = len(h.room)
			h.room = append(h.room, guess{token: next})
		}
		h.room[g].order = max(h.room[g].order, int32(order))
		for o := 1; o <= order; o++ {
			all[o]++
			h.room[g].count[o]++
		}
	}
	escape := 1.0
	for o := maxOrder; o >= 1; o-- {
		if all[o] == 0 {
			continue
		}
		for g := range h.room {
			h.room[g].score += escape * float64(h.room[g].count[o]) / float64(all[o]+1)
		}
		escape /= float64(all[o] + 1)
	}
	slices.SortStableFunc(h.room, func(a, b guess) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	n := 0
	for n < len(h.room) && n < maxGuesses && (n == 0 || h.room[n].score >= leastChance) {
		n++
	}
	return h.room[:n]
}
