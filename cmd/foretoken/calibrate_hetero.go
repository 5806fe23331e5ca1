//go:build !js

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/fit"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

// treeSize holds the settings of a draft tree: top-k, depth and nodes.
type treeSize struct{ k, d, n int }

func (s treeSize) String() string { return fmt.Sprintf("k=%d d=%d N=%d", s.k, s.d, s.n) }

type heteroOptions struct {
	gatherOptions
	tree treeSize
	also []string
	leaf int
	add  bool

	sizes []treeSize
}

func calibrateHeteroCommand(c *console) *cobra.Command {
	o := heteroOptions{}
	cmd := &cobra.Command{
		Use:   "hetero",
		Short: "Fit HeteroSpec's entropy bins",
		Long: `Fit HeteroSpec's entropy bins to a pair of models, or a target and its EAGLE-3 head, and a draft tree.

The target continues the prompts once, and the draft grows trees along its text; nothing is verified.
At temperature 0 the bins belong to trees ranked by the draft alone, above it to trees ranked with the
target's noise; --add keeps the file's fits of the other kind, of other trees and of the target's other
drafter. An interrupted run continues where it stopped.`,
		Example: "  foretoken calibrate hetero --prompts prompts.jsonl --depth 5 --top-k 10 --nodes 60 --tree 4,4,16 " +
			"--out calibration.json\n" +
			"  foretoken calibrate hetero --prompts prompts.jsonl --temperature 1 --out calibration.json --add",
		Args: flagsOnly,
		RunE: checkedRun(o.complete, func(ctx context.Context) error { return o.run(ctx, c) }),
	}
	d := method.DefaultConfig(method.DrafterEAGLE2)
	f := cmd.Flags()
	o.flags(f, "calibration.json")
	o.sourceFlag(f)
	f.IntVar(&o.tree.d, "depth", d.Depth, "levels of the tree after the first")
	f.IntVar(&o.tree.k, "top-k", d.TopK, "candidates of a node and nodes of a level")
	f.IntVar(&o.tree.n, "nodes", d.Nodes, "nodes verified a round, the root included")
	f.StringArrayVar(&o.also, "tree", nil,
		"another tree to fit as well, as top-k,depth,nodes; may be given several times")
	f.IntVar(&o.leaf, "leaf", 0, "fewest paths of a bin (default a fiftieth of them)")
	f.BoolVar(&o.add, "add", false, "keep the fits that --out has of other trees, temperatures and drafters")
	return cmd
}

func (o *heteroOptions) complete(*pflag.FlagSet) error {
	if err := o.gatherOptions.check(); err != nil {
		return err
	}
	o.sizes = []treeSize{o.tree}
	for _, a := range o.also {
		var numbers []int
		for field := range strings.SplitSeq(a, ",") {
			if n, err := strconv.Atoi(strings.TrimSpace(field)); err == nil {
				numbers = append(numbers, n)
			}
		}
		if len(numbers) != 3 || strings.Count(a, ",") != 2 {
			return usagef("--tree is %q, want three numbers: top-k,depth,nodes", a)
		}
		o.sizes = append(o.sizes, treeSize{numbers[0], numbers[1], numbers[2]})
	}
	if err := want("leaf", o.leaf, o.leaf >= 0, "0 or more"); err != nil {
		return err
	}
	for i, s := range o.sizes {
		c := method.DefaultConfig(method.DrafterEAGLE2)
		c.TopK, c.Depth, c.Nodes = s.k, s.d, s.n
		if err := c.Validate(); err != nil {
			return asUsage(err)
		}
		if slices.Contains(o.sizes[:i], s) { // bound: trees in a flag
			return usagef("the tree %s is given twice", s)
		}
	}
	return nil
}

func (o *heteroOptions) run(ctx context.Context, c *console) error {
	s, texts, err := o.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	var kept []*adapt.HeteroCalibration
	if o.add {
		if kept, err = o.readFits(s.Fingerprint()); err != nil {
			return err
		}
	}
	var ends []func() error
	var short []error
	for _, size := range o.sizes {
		all, end, err := gather(ctx, c, &o.gatherOptions, s, size.String(),
			map[string]any{"k": size.k, "depth": size.d, "n": size.n}, texts,
			func(t *fit.Text) ([]adapt.HeteroPoint, error) {
				return fit.HeteroPoints(ctx, s.Session, &t.Continuation, size.k, size.n, size.d, o.collect())
			})
		if err != nil {
			return err
		}
		points := slices.Concat(all...)
		fmt.Fprintf(o.report(c), "tree %s, %s, %d prompts, %d rounds\n", size, o.ranking(), len(texts), len(points))
		bins, err := adapt.FitHetero(points, o.leaf)
		if err != nil { // the other trees may have enough
			fmt.Fprintf(o.report(c), "%s\n\n", oneLine(err.Error()))
			short = append(short, fmt.Errorf("tree %s: %w", size, err))
			continue
		}
		ends = append(ends, end)
		reportBins(o.report(c), bins, points)
		fmt.Fprintln(o.report(c))
		kept = o.mergeFit(kept, o.fingerprint(s), size, bins, texts, len(points))
	}
	if len(short) > 0 {
		return errors.New(oneLine(errors.Join(short...).Error()))
	}
	file, err := (&foretoken.Calibrations{Hetero: kept}).Encode()
	if err != nil {
		return err
	}
	return o.write(c, file, ends...)
}

func (o *heteroOptions) coupled() bool { return o.temperature > 0 && !o.noCoupling }

func (o *heteroOptions) ranking() string {
	if o.coupled() {
		return fmt.Sprintf("coupled at temperature %g", o.temperature)
	}
	return fmt.Sprintf("temperature %g", o.temperature)
}

// readFits reads the fits in the output file, which must be of the same target.
func (o *heteroOptions) readFits(pair spec.Fingerprint) ([]*adapt.HeteroCalibration, error) {
	b, err := readFile(o.out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var old foretoken.Calibrations
	if err := old.Parse(o.out, b); err != nil {
		return nil, err
	}
	for _, h := range old.Hetero {
		f := h.Fingerprint
		f.Target = pair.Target
		if err := h.Matches(f); err != nil {
			return nil, fmt.Errorf("%s cannot be added to: %w", o.out, err)
		}
	}
	return old.Hetero, nil
}

func (o *heteroOptions) mergeFit(all []*adapt.HeteroCalibration, pair spec.Fingerprint, size treeSize,
	bins *adapt.HeteroFit, texts []fit.Text, samples int) []*adapt.HeteroCalibration {
	pair.TopK, pair.Depth, pair.Nodes = size.k, size.d, size.n
	made := o.made(texts)
	made.Samples = samples
	at := slices.IndexFunc(all, func(h *adapt.HeteroCalibration) bool { // bound: trees in a flag
		f := h.Fingerprint
		return f.Draft == pair.Draft && f.TopK == size.k && f.Depth == size.d && f.Nodes == size.n
	})
	if at < 0 {
		all = append(all,
			&adapt.HeteroCalibration{CalibrationHeader: spec.CalibrationHeader{Fingerprint: pair, Made: made}})
		at = len(all) - 1
	}
	h := all[at]
	how := fmt.Sprintf("temperature %g, %d prompts, %d rounds", o.temperature, len(texts), samples)
	if h.Made.Settings == nil {
		h.Made.Settings = map[string]string{}
	}
	if o.coupled() {
		h.Coupled, h.Made.Settings["coupled"] = bins, how
	} else {
		h.Greedy, h.Made.Settings["greedy"] = bins, how
	}
	return all
}

// reportBins prints a fit: its bins and the distributions of Φ and TCR.
func reportBins(w io.Writer, f *adapt.HeteroFit, points []adapt.HeteroPoint) {
	rounds, full := make([]int, len(f.Means)), make([]int, len(f.Means))
	for _, p := range points {
		b := f.Bin(p.Phi)
		rounds[b]++
		if p.Full {
			full[b]++
		}
	}
	fmt.Fprintf(w, "%4s %22s %8s %10s %10s %10s\n", "bin", "Φ in nats", "rounds", "full paths", "accepted", "mean TCR")
	for b := range f.Means {
		low, high := 0.0, "∞"
		if b > 0 {
			low = f.Edges[b-1]
		}
		if b < len(f.Edges) {
			high = fmt.Sprintf("%.3f", f.Edges[b])
		}
		fmt.Fprintf(w, "%4d %12.3f … %7s %8d %10d %9.1f%% %10.2f\n", b, low, high, rounds[b], full[b],
			100*float64(full[b])/float64(max(rounds[b], 1)), f.Means[b])
	}
	fmt.Fprintln(w, "Φ, all rounds (full paths in brackets):")
	reportHistogram(w, points, func(p adapt.HeteroPoint) float64 { return p.Phi }, "%.2f")
	fmt.Fprintln(w, "TCR (of full paths in brackets):")
	reportHistogram(w, points, func(p adapt.HeteroPoint) float64 { return float64(p.TCR) }, "%.0f")
}

const histogramBars = 12

// reportHistogram prints the distribution of a value in bars of equal width.
func reportHistogram(w io.Writer, points []adapt.HeteroPoint, value func(adapt.HeteroPoint) float64, format string) {
	least, most := value(points[0]), value(points[0])
	for _, p := range points {
		least, most = min(least, value(p)), max(most, value(p))
	}
	width := (most - least) / histogramBars
	var all, full [histogramBars]int
	tallest := 0
	for _, p := range points {
		i := 0
		if width > 0 {
			i = min(int((value(p)-least)/width), histogramBars-1)
		}
		all[i]++
		if p.Full {
			full[i]++
		}
		tallest = max(tallest, all[i])
	}
	for i := range all {
		if width == 0 && i > 0 {
			break
		}
		bar := strings.Repeat("█", (40*all[i]+tallest-1)/tallest)
		fmt.Fprintf(w, "%9s %-40s %d (%d)\n", fmt.Sprintf(format, least+float64(i)*width), bar, all[i], full[i])
	}
}
