//go:build !js

package main

import (
	"cmp"
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
	tree    treeSize
	also    []string
	fitting adapt.HeteroFitting
	add     bool
	compare bool

	sizes []treeSize
}

func calibrateHeteroCommand(c *console) *cobra.Command {
	o := heteroOptions{fitting: adapt.DefaultHeteroFitting()}
	cmd := &cobra.Command{
		Use:   "hetero",
		Short: "Fit HeteroSpec's entropy bins",
		Long: `Fit HeteroSpec's entropy bins to a pair of models, or a target and its EAGLE-3 head, and a draft tree.

The target continues the prompts once, and the draft grows trees along its text; nothing is verified. The
trees' entropies and ranks are kept next to the continuations, so that a fit with other settings takes seconds.
At temperature 0 the bins belong to trees ranked by the draft alone. Above it they belong to trees ranked with
the target's noise, and to the temperatures of one band: up to 0.5, 1 or 2. --add keeps the file's fits of the
other bands, of other trees and of the target's other drafter. An interrupted run continues where it stopped.

--compare writes no file. It prints, for regression trees of depth 3 to 6 and both weightings of their splits,
the rounds in low bins, their Jaccard overlap with those of depth 3, and how far the bins move when the prompts
are drawn again.`,
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
	f.IntVar(&o.fitting.CARTDepth, "cart-depth", o.fitting.CARTDepth,
		"depth of the regression tree that makes the bins")
	f.IntVar(&o.fitting.LowBins, "low-bins", o.fitting.LowBins,
		"how many of the lowest bins draft deeper and verify less")
	f.IntVar(&o.fitting.Leaf, "leaf", 0, "fewest paths of a bin (default a fiftieth of them)")
	f.BoolVar(&o.fitting.Weighted, "weighted", false,
		"weight the squared error of each side of a split by its share of the paths, as the paper's equation 2")
	f.BoolVar(&o.compare, "compare", false, "print how the bins depend on the regression tree and on the prompts, and "+
		"write no file")
	f.BoolVar(&o.add, "add", false, "keep the fits that --out has of other trees, bands of temperature and "+
		"drafters")
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
	f := &o.fitting
	if err := cmp.Or(want("leaf", f.Leaf, f.Leaf >= 0, "0 or more"),
		want("cart-depth", f.CARTDepth, f.CARTDepth >= 1 && f.CARTDepth <= adapt.MaxCARTDepth,
			fmt.Sprint("1 to ", adapt.MaxCARTDepth))); err != nil {
		return err
	}
	most := 1 << f.CARTDepth
	if err := want("low-bins", f.LowBins, f.LowBins >= 1 && f.LowBins <= most, fmt.Sprint("1 to ", most)); err != nil {
		return err
	}
	if o.noCoupling && o.temperature > 0 {
		return usagef("--no-coupling and --temperature exclude each other: uncoupled drafts take the bins of " +
			"temperature 0")
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
	var short []error
	for _, size := range o.sizes {
		all, journal, err := gatherIn(ctx, c, &o.gatherOptions, s, o.pointsFile(s, size), size.String(),
			map[string]any{"k": size.k, "depth": size.d, "n": size.n}, texts,
			func(t *fit.Text) ([]adapt.HeteroPoint, error) {
				return fit.HeteroPoints(ctx, s.Session, &t.Continuation, size.k, size.n, size.d, o.collect())
			})
		if err == nil {
			err = journal.Close() // kept for fits with other settings
		}
		if err != nil {
			return err
		}
		points := slices.Concat(all...)
		if !o.json || !o.compare {
			fmt.Fprintf(o.report(c), "tree %s, %s, %d prompts, %d rounds\n", size, o.ranking(), len(texts), len(points))
		}
		if o.compare {
			if err := o.compareFits(c, size, all); err != nil {
				return err
			}
			continue
		}
		bins, err := adapt.FitHetero(points, o.fitting)
		if err != nil { // the other trees may have enough
			fmt.Fprintf(o.report(c), "%s\n\n", oneLine(err.Error()))
			short = append(short, fmt.Errorf("tree %s: %w", size, err))
			continue
		}
		bins.Temperature, bins.Prompts = o.temperature, len(texts)
		reportBins(o.report(c), bins, points)
		fmt.Fprintln(o.report(c))
		kept = o.mergeFit(kept, o.fingerprint(s), size, bins, texts, len(points))
	}
	if o.compare {
		return nil
	}
	if len(short) > 0 {
		return errors.New(oneLine(errors.Join(short...).Error()))
	}
	file, err := (&foretoken.Calibrations{Hetero: kept}).Encode()
	if err != nil {
		return err
	}
	return o.write(c, file)
}

// pointsFile names the file that keeps a tree's points next to the continuations, one for each draft and way to
// collect.
func (o *heteroOptions) pointsFile(s *session, size treeSize) string {
	how := ""
	if o.every {
		how = "-every"
	}
	texts := strings.TrimSuffix(o.continuations, ".continuations.jsonl")
	return texts + fmt.Sprintf(".%.8s-k%d-d%d-n%d%s.points.jsonl", o.fingerprint(s).Draft.Hash, size.k, size.d, size.n,
		how)
}

func (o *heteroOptions) ranking() string {
	if o.temperature > 0 {
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
	all[at].AddFit(bins)
	return all
}

// reportBins prints a fit: its bins and the distributions of Φ and TCR.
func reportBins(w io.Writer, f *adapt.HeteroFit, points []adapt.HeteroPoint) {
	fmt.Fprintf(w, "%4s %22s %8s %10s %10s %10s\n", "bin", "Φ in nats", "rounds", "full paths", "accepted", "mean TCR")
	for b := range f.Means {
		low, high := 0.0, "∞"
		if b > 0 {
			low = f.Edges[b-1]
		}
		if b < len(f.Edges) {
			high = fmt.Sprintf("%.3f", f.Edges[b])
		}
		fmt.Fprintf(w, "%4d %12.3f … %7s %8d %10d %9.1f%% %10.2f\n", b, low, high, f.Rounds[b], f.Counts[b],
			100*float64(f.Counts[b])/float64(f.Rounds[b]), f.Means[b])
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
