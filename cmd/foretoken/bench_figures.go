//go:build !js

package main

import (
	"fmt"

	"foretoken"
)

// series is a line of a figure: a histogram by name.
type series struct {
	name string
	h    *foretoken.Histogram
}

// figure prints the numbers of a paper's figure for the rows that have them.
func (p *benchPrinter) figure(which string, rows []*foretoken.BenchRow) {
	var all []series
	for _, r := range rows {
		f := r.Figures
		if f == nil {
			continue
		}
		switch which {
		case foretoken.FigureEntropy:
			if n, _ := f.Entropy.Total(); n > 0 {
				all = append(all, series{marked(r), &f.Entropy})
			}
		case foretoken.FigureEstimates:
			n, hits := f.Estimates.Total()
			name := marked(r)
			if hits > 0 && hits < n {
				name += fmt.Sprintf(", AUC %.3f", f.Estimates.AUC())
			}
			if n > 0 {
				all = append(all, series{name, &f.Estimates})
			}
		case foretoken.FigurePhi, foretoken.FigureTCR:
			for i := range f.Bins {
				b := &f.Bins[i]
				name := marked(r)
				if b.Bin > 0 {
					name += fmt.Sprintf(", bin %d", b.Bin)
				}
				if which == foretoken.FigurePhi {
					all = append(all, series{name, &b.Phi})
				} else {
					all = append(all, series{name, &b.TCR})
				}
			}
		case foretoken.FigureDecision:
			if f.DecodeNS > 0 && f.DecisionNS > 0 && len(f.Bins) > 0 && f.Bins[len(f.Bins)-1].Bin > 0 {
				p.line("%s: finding Φ and its bin takes %.3f %% of the time of decoding", marked(r), 100*float64(f.DecisionNS)/float64(f.DecodeNS))
			}
		}
	}
	title, ok := map[string]string{
		foretoken.FigureEntropy:   "acceptance by the entropy of the draft's distribution, nats: % accepted (tokens judged)",
		foretoken.FigureEstimates: "acceptance by the head's estimate: % accepted (tokens judged)",
		foretoken.FigurePhi:       "rounds by Φ, nats: % that accepted a path to the base depth (rounds)",
		foretoken.FigureTCR:       "rounds by TCR, the rank of the last accepted node less one: % that accepted a path to the base depth (rounds)",
	}[which]
	if ok && len(all) > 0 {
		p.line("")
		p.line("%s", title)
		p.intervals(all)
	}
}

// mostColumns is how many intervals a figure's table has; more are put together.
const mostColumns = 12

// intervals prints histograms of one width, a line for each.
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
