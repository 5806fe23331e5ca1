//go:build !js

package main

import (
	"fmt"

	"foretoken/fit"
	"foretoken/spec/adapt"
)

// redraws is the number of sets of prompts that calibrate hetero --compare draws.
const redraws = 200

// comparedDepths are the depths of the regression tree that HeteroSpec's paper compares.
var comparedDepths = []int{3, 4, 5, 6}

// heteroTree is the JSON output of calibrate hetero --compare for a draft tree.
type heteroTree struct {
	TopK        int                    `json:"top_k"`
	Depth       int                    `json:"depth"`
	Nodes       int                    `json:"nodes"`
	Temperature float64                `json:"temperature"`
	Prompts     int                    `json:"prompts"`
	Fits        []fit.HeteroComparison `json:"fits"`
}

// compareFits prints how the bins of a draft tree depend on the regression tree, the weights of its splits and the
// prompts.
func (o *heteroOptions) compareFits(c *console, size treeSize, prompts [][]adapt.HeteroPoint) error {
	var settings []adapt.HeteroFitting
	for _, weighted := range []bool{false, true} {
		for _, depth := range comparedDepths {
			s := o.fitting
			s.CARTDepth, s.Weighted = depth, weighted
			settings = append(settings, s)
		}
	}
	all, err := fit.CompareHetero(prompts, settings, redraws, o.seed)
	if err != nil {
		return fmt.Errorf("tree %s: %w", size, err)
	}
	if o.json {
		return printObject(c, heteroTree{size.k, size.d, size.n, o.temperature, len(prompts), all})
	}
	w := o.report(c)
	fmt.Fprintf(w, "%-9s %5s %5s %5s %9s %8s %8s %9s %9s %8s\n", "split by", "depth", "bins", "leaf", "low Φ", "low",
		"overlap", "edges ±", "low Φ ±", "redrawn")
	for _, f := range all {
		by := "sum"
		if f.Weighted {
			by = "weighted"
		}
		fmt.Fprintf(w, "%-9s %5d %5d %5d %9.3f %7.1f%% %8.3f %9.3f %9.3f %8.3f\n", by, f.CARTDepth, f.Bins, f.Leaf,
			f.LowEdge, 100*f.Low, f.Overlap, f.EdgeSD, f.LowSD, f.Redrawn)
	}
	fmt.Fprintf(w, "low: rounds in the %d lowest bins; overlap: Jaccard, with depth %d; ±: standard deviation in nats "+
		"over %d draws of the prompts; redrawn: mean Jaccard overlap with their low rounds\n\n", o.fitting.LowBins,
		comparedDepths[0], redraws)
	return nil
}
