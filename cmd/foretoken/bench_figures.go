//go:build !js

package main

import (
	"fmt"

	"foretoken/bench"
)

// series is a named histogram of a figure.
type series struct {
	name string
	h    *bench.Histogram
}

// figure prints the numbers of a paper's figure for the rows that have them.
func (p *benchPrinter) figure(which string, rows []*bench.Row) {
	var all []series
	for _, r := range rows {
		f := r.Figures
		if f == nil {
			continue
		}
		switch which {
		case bench.FigureEntropy:
			if n, _ := f.Entropy.Total(); n > 0 {
				all = append(all, series{rowName(r), &f.Entropy})
			}
		case bench.FigureEstimates:
			n, hits := f.Estimates.Total()
			name := rowName(r)
			if hits > 0 && hits < n {
				name += fmt.Sprintf(", AUC %.3f", f.Estimates.AUC())
			}
			if n > 0 {
				all = append(all, series{name, &f.Estimates})
			}
		case bench.FigureDistances:
			if n, _ := f.Distances.Total(); n > 0 {
				all = append(all, series{fmt.Sprintf("%s, mean of accepted %.3f, of rejected %.3f", rowName(r),
					r.DistanceAccepted.Mean, r.DistanceRejected.Mean), &f.Distances})
			}
		case bench.FigureLogits:
			if n, _ := f.Logits.Total(); n > 0 {
				all = append(all, series{rowName(r), &f.Logits})
			}
		case bench.FigureRatios:
			if n, _ := f.Ratios.Total(); n > 0 {
				all = append(all, series{rowName(r), &f.Ratios})
			}
		case bench.FigurePhi, bench.FigureTCR:
			for i := range f.Bins {
				b := &f.Bins[i]
				name := rowName(r)
				if b.Bin > 0 {
					name += fmt.Sprintf(", bin %d", b.Bin)
				}
				if which == bench.FigurePhi {
					all = append(all, series{name, &b.Phi})
				} else {
					all = append(all, series{name, &b.TCR})
				}
			}
		case bench.FigureDecision:
			if f.Rounds > 0 {
				p.line("%s: %.2f submits a round, %.0f %% of the rounds draft and verify in one", rowName(r),
					float64(f.Submits)/float64(f.Rounds), 100*float64(f.Joint)/float64(f.Rounds))
			}
			if f.DecodeNS > 0 && f.DecisionNS > 0 && len(f.Bins) > 0 && f.Bins[len(f.Bins)-1].Bin > 0 {
				p.line("%s: finding Φ and its bin takes %.3f %% of the time of decoding", rowName(r),
					100*float64(f.DecisionNS)/float64(f.DecodeNS))
			}
		}
	}
	title, ok := map[string]string{
		bench.FigureEntropy: "acceptance by the entropy of the draft's distribution, nats: " +
			"% accepted (tokens verified)",
		bench.FigureEstimates: "acceptance by the head's estimate: % accepted (tokens verified)",
		bench.FigurePhi:       "rounds by Φ, nats: % that accepted a path to the base depth (rounds)",
		bench.FigureTCR: "rounds by TCR, the rank of the last accepted node less one: % that accepted a path to " +
			"the base depth (rounds)",
		bench.FigureDistances: "tokens by the distance of draft and target, √JSD: % accepted (tokens verified)",
		bench.FigureLogits: "target's decisions by its largest logit z1: % with both of the two largest above 0 " +
			"(decisions)",
		bench.FigureRatios: "target's decisions by z2/z1, both above 0: % relaxed (decisions)",
	}[which]
	if ok && len(all) > 0 {
		p.line("")
		p.line("%s", title)
		p.intervals(all)
	}
}

// mostColumns limits the intervals of a figure's table; further ones are merged.
const mostColumns = 12

// intervals prints histograms of equal interval width, one per line.
func (p *benchPrinter) intervals(all []series) {
	columns := 0
	for _, s := range all {
		columns = max(columns, len(s.h.N))
	}
	join := (columns + mostColumns - 1) / mostColumns
	if join == 0 {
		return
	}
	header := []string{""}
	for i := 0; i < columns; i += join {
		to := fmt.Sprintf("-%.3g", float64(i+join)*all[0].h.Width)
		if i+join >= all[0].h.Most {
			to = " up"
		}
		header = append(header, fmt.Sprintf("%.3g%s", float64(i)*all[0].h.Width, to))
	}
	var lines [][]string
	for _, s := range all {
		line := []string{s.name}
		for i := 0; i < columns; i += join {
			n, hits := 0, 0
			for j := i; j < min(i+join, len(s.h.N)); j++ {
				n, hits = n+s.h.N[j], hits+s.h.Hits[j]
			}
			cell := ""
			if n > 0 {
				cell = fmt.Sprintf("%.0f (%d)", 100*float64(hits)/float64(n), n)
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	p.grid(header, lines)
}
