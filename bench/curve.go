//go:build !js

package bench

import (
	"cmp"
	"maps"
	"slices"
)

// curveDraws is the number of sets of prompts for an interval at equal acceptance length, which each take a curve.
const curveDraws = 2_000

// point is a row on a plot of tokens per pass over acceptance length.
type point struct{ length, tokens float64 }

// TokensAt returns the tokens per pass that the rows of a curve need for an acceptance length, interpolated
// linearly; ok is false beyond its ends.
func TokensAt(curve []*Row, length float64) (tokens float64, ok bool) {
	var points []point
	for _, r := range curve {
		if r.Calls.Mean > 0 {
			points = append(points, point{r.AcceptanceLength.Mean, r.Tokens.Mean / r.Calls.Mean})
		}
	}
	return tokensAt(points, length)
}

// tokensAt sorts the points.
func tokensAt(points []point, length float64) (tokens float64, ok bool) {
	// Of several trees with equal acceptance length, use the smallest.
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(a.tokens, b.tokens))
	})
	i := slices.IndexFunc(points, func(p point) bool { return p.length >= length })
	if i < 0 || i == 0 && points[0].length > length {
		return 0, false
	}
	p := points[i]
	if p.length == length {
		return p.tokens, true
	}
	q := points[i-1]
	return q.tokens + (p.tokens-q.tokens)*(length-q.length)/(p.length-q.length), true
}

// work sums the counts of a row on one prompt.
type work struct{ calls, nodes, output float64 }

// CompareCurves sets the groups' rows at equal acceptance length, on the prompts that a row and its whole curve have.
func CompareCurves(groups []Group, cells []Cell) {
	of := map[string]map[string]*work{} // by row and prompt
	for i := range cells {
		c := &cells[i]
		if of[c.Method] == nil {
			of[c.Method] = map[string]*work{}
		}
		w := of[c.Method][c.Prompt]
		if w == nil {
			w = &work{}
			of[c.Method][c.Prompt] = w
		}
		w.calls, w.nodes, w.output = w.calls+float64(c.Stats.Calls), w.nodes+float64(c.Stats.Nodes),
			w.output+float64(c.Stats.OutputTokens)
	}
	for i := range groups {
		g := &groups[i]
		if len(g.Curve) < 2 {
			continue
		}
		g.AtEqualLength = map[string]Interval{}
		for _, name := range g.OnCurve {
			if at := atEqualLength(of, name, g.Curve); at.N > 0 {
				g.AtEqualLength[name] = at
			}
		}
	}
}

// atEqualLength returns a row's tokens per pass over the curve's.
func atEqualLength(of map[string]map[string]*work, name string, curve []string) Interval {
	var rows [][]*work // of the row and then of the curve, by prompt
	for _, prompt := range slices.Sorted(maps.Keys(of[name])) {
		row := []*work{}
		for _, method := range append([]string{name}, curve...) {
			if w := of[method][prompt]; w != nil {
				row = append(row, w)
			}
		}
		if len(row) == 1+len(curve) {
			rows = append(rows, row)
		}
	}
	if len(rows) < leastPrompts {
		return Interval{}
	}
	return bootstrap(len(rows), curveDraws, func(chosen []int) (float64, bool) {
		points := make([]point, 1+len(curve))
		for m := range points {
			var sum work
			for _, i := range chosen {
				w := rows[i][m]
				sum.calls, sum.nodes, sum.output = sum.calls+w.calls, sum.nodes+w.nodes, sum.output+w.output
			}
			points[m] = point{sum.output / max(sum.calls, 1), sum.nodes / max(sum.calls, 1)}
		}
		own := points[0]
		at, ok := tokensAt(points[1:], own.length)
		return own.tokens / at, ok && at > 0
	})
}
