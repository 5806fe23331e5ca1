package bench

import (
	"fmt"

	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

// papers lists the tables of the implemented papers and of this project. A table that only counts needs one repetition.
var papers = []struct {
	name, title string
	repeat      int
	build       func(*groupBuilder)
}{
	{"hetero", "HeteroSpec against the same EAGLE-2 tree, T=0 and T=1", 3, heteroMain},
	{"hetero-ablation", "HeteroSpec: its mechanisms one after the other, and one at a time", 3, heteroAblation},
	{"hetero-alpha", "HeteroSpec: α±1", 1, heteroAlpha},
	{"hetero-depth", "HeteroSpec: granularity of the base depth", 1, heteroDepths},
	{"hetero-unseen", "HeteroSpec: bins fitted without a category, read in its column", 1, heteroUnseen},
	{"acceptance", "Acceptance head on trees and chains, with and without, T=0 and T=1", 3, acceptanceMain},
	{"acceptance-h", "Acceptance head: threshold h, K_max 6", 1, acceptanceThresholds},
	{"c2t", "C2T against EAGLE-2: the curves for β and N", 1, c2tCurves},
	{"c2t-features", "C2T: features, hidden sizes, cut-offs of the entropy, second pruning", 1, c2tFeatures},
	{"c2t-chain", "C2T on chains against DyMax and DyJoint", 1, c2tChains},
	{"c2t-size", "Static tree, EAGLE-2 and C2T at equal size", 1, c2tSizes},
	{"c2t-transfer", "C2T: cross-validation over categories; a classifier moved from another pair", 1, c2tTransfer},
	{"adasd", "AdaSD against fixed chains and assisted generation", 3, adasdMain},
	{"mars", "MARS on trees of depth 7, k=10, against strict verification", 3, marsMain},
	{"mars-theta", "MARS: θ from 0.84 to 0.96", 1, marsTheta},
	{"mars-grid", "MARS on chains: temperature × K", 1, marsGrid},
	{"coupled", "Coupled against independent drafting", 1, coupledMain},
	{"eagle3", "EAGLE-3 head against the small draft", 3, eagle3Main},
	{"baselines", "Baselines", 3, baselinesMain},
	{"auto", "The goodput tree against every fixed method", 5, autoMain},
}

// addEach adds a row for each value, which the formats of its name and of its method take, and returns the names.
func addEach[T any](b *groupBuilder, name, method, against string, values ...T) (names []string) {
	for _, v := range values {
		names = append(names, fmt.Sprintf(name, v))
		b.add(fmt.Sprintf(name, v), fmt.Sprintf(method, v), against)
	}
	return names
}

const (
	papersTree = "k=10 d=5 N=60"
	papersRow  = "eagle2 " + papersTree
	smallTree  = "eagle2:depth=4,top-k=4,nodes=16"
)

func heteroMain(b *groupBuilder) {
	for _, t := range []float64{0, 1} {
		b.plainAt(t)
		b.add(papersRow, "eagle2", "")
		b.add("hetero", "hetero", papersRow)
		b.add("adaedl", "adaedl", papersRow)
		if t > 0 { // without the target's noise, as in the paper
			independent := papersRow + " independent"
			b.add(independent, "eagle2:coupled=false", "")
			b.add("hetero independent", "hetero:coupled=false", independent)
		}
	}
	b.group.Figures = []string{FigurePhi, FigureTCR, FigureEntropy, FigureDecision}
	b.group.Note = "the paper: Calls 3-7 % fewer, Tokens 8-16 % fewer in the mean, a larger acceptance length, " +
		"added time at most 1 % of a round"
}

func heteroAblation(b *groupBuilder) {
	b.add(papersRow, "eagle2", "")
	for _, r := range []struct{ name, off string }{
		{"hetero: extension only", "no-pruning=true,no-adaptation=true"},
		{"hetero: extension + pruning", "no-adaptation=true"},
		{"hetero: pruning only", "no-extension=true,no-adaptation=true"},
		{"hetero: adaptation only", "no-extension=true,no-pruning=true"},
		{"hetero: extension + adaptation", "no-pruning=true"},
		{"hetero: pruning + adaptation", "no-extension=true"},
	} {
		b.add(r.name, "hetero:"+r.off, papersRow)
	}
	b.add("hetero", "hetero", papersRow)
	b.group.Note = "without adaptation the programs of other shapes are made when a round first needs them; " +
		"counts do not depend on it, times do"
}

func heteroAlpha(b *groupBuilder) {
	b.add(papersRow, "eagle2", "")
	b.add("hetero: α-1", "hetero:alpha=-1", papersRow)
	b.add("hetero", "hetero", papersRow)
	b.add("hetero: α+1", "hetero:alpha=1", papersRow)
}

func heteroDepths(b *groupBuilder) {
	for _, d := range []int{3, 4, 5, 6} {
		tree := fmt.Sprintf("eagle2 k=10 d=%d N=60", d)
		b.add(tree, fmt.Sprintf("eagle2:depth=%d", d), "")
		b.add(fmt.Sprintf("hetero d=%d", d), fmt.Sprintf("hetero:depth=%d", d), tree)
	}
	b.group.Note = "foretoken calibrate hetero prints the overlap of low-entropy sets between depths"
}

func heteroUnseen(b *groupBuilder) {
	b.add(papersRow, "eagle2", "")
	for _, c := range b.o.Categories {
		m := b.add("hetero without "+c, "hetero", papersRow)
		b.bins(m, "hetero-without-"+c+".json", "make it with foretoken calibrate hetero --top-k 10 --depth 5 --nodes "+
			"60 on prompts of the other categories")
	}
	b.add("hetero", "hetero", papersRow)
	b.group.Note = "a row counts in the column of the category that its bins never saw; the bins of the last row " +
		"come from other prompts altogether"
}

func acceptanceMain(b *groupBuilder) {
	for _, t := range []float64{0, 1} {
		b.plainAt(t)
		for _, k := range []int{5, 6, 7} {
			tree, chain := fmt.Sprintf("eagle2 k=10 K_max=%d", k), fmt.Sprintf("chain K=%d", k)
			b.add(tree, fmt.Sprintf("eagle2:depth=%d", k-1), "")
			b.add(fmt.Sprintf("acceptance K_max=%d", k), fmt.Sprintf("acceptance:depth=%d", k-1), tree)
			b.add(chain, fmt.Sprintf("chain:depth=%d", k), "")
			b.add(fmt.Sprintf("acceptance-chain K_max=%d", k), fmt.Sprintf("acceptance-chain:depth=%d", k), chain)
		}
		b.add("acceptance K_max=6, any branch", "acceptance:depth=5,any=true", "eagle2 k=10 K_max=6")
	}
	b.group.Figures = []string{FigureEstimates}
	b.group.Note = "h is worked out of measured costs; K_max counts levels of tokens"
}

func acceptanceThresholds(b *groupBuilder) {
	for _, t := range []float64{0, 1} {
		b.temperature = t
		tree, chain := "eagle2 k=10 K_max=6", "chain K=6"
		b.add(tree, "eagle2:depth=5", "")
		b.add(chain, "chain:depth=6", "")
		for _, h := range []float64{0.94, 0.95, 0.96} {
			b.add(fmt.Sprintf("acceptance h=%g", h), fmt.Sprintf("acceptance:depth=5,threshold=%g", h), tree)
			b.add(fmt.Sprintf("acceptance-chain h=%g", h),
				fmt.Sprintf("acceptance-chain:depth=6,threshold=%g", h), chain)
		}
		b.add("acceptance K_max=6", "acceptance:depth=5", tree)
		b.add("acceptance-chain K_max=6", "acceptance-chain:depth=6", chain)
	}
	b.group.Figures = []string{FigureEstimates}
}

// c2tTree is the tree of C2T and of the EAGLE-2 rows it is compared with: 10 levels, K=15.
const c2tTree = "depth=9,top-k=15"

func c2tCurves(b *groupBuilder) {
	for _, n := range []int{4, 8, 12, 16, 24, 32, 48, 60} {
		name := fmt.Sprintf("eagle2 k=15 d=9 N=%d", n)
		b.add(name, fmt.Sprintf("eagle2:%s,nodes=%d", c2tTree, min(n, b.o.MaxNodes)), "")
		b.group.Curve = append(b.group.Curve, name)
	}
	b.group.OnCurve = addEach(b, "c2t β=%g", "c2t:threshold=%g", "", 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85)
	b.group.Note = "the paper: 20-25 % fewer Tokens than EAGLE-2 at equal acceptance length"
}

// trained describes how to train a classifier that a row needs.
func trained(file, flags string) string {
	return "make it with foretoken train c2t --prompts FILE --out DIR/" + file + " " + flags
}

// c2tBase is the row that C2T's rows with other classifiers are compared with.
const c2tBase = "c2t β=0.5"

func c2tFeatures(b *groupBuilder) {
	b.add(c2tBase, "c2t:threshold=0.5", "")
	b.add("c2t β=0.5, one pruning", "c2t:threshold=0.5,one-pruning=true", c2tBase)
	for _, f := range []struct{ name, file, features string }{
		{"P+H", "c2t-ph.json", "probability,entropy"}, {"P+d", "c2t-pd.json", "probability,depth"},
		{"H+d", "c2t-hd.json", "entropy,depth"},
	} {
		b.c2t("c2t "+f.name, f.file, trained(f.file, "--features "+f.features), false)
	}
	for _, n := range []int{2, 4, 6, 8, 12, 24, 48} {
		file := fmt.Sprintf("c2t-hidden-%d.json", n)
		b.c2t(fmt.Sprintf("c2t hidden %d", n), file, trained(file, fmt.Sprintf("--hidden %d", n)), false)
	}
	for _, n := range []int{10, 100, 1000} {
		b.c2t(fmt.Sprintf("c2t entropy of the top %d", n), fmt.Sprintf("c2t-entropy-%d.json", n),
			"train it on entropies of so many candidates", false)
	}
	b.group.Figures = []string{FigureEntropy}
	b.group.Note = "the entropy is that of the whole distribution while decoding, whatever a classifier was " +
		"trained with"
}

// jointCut returns a classifier that keeps a node while its joint probability is above a threshold: DyJoint in
// C2T's paper. Its confidence crosses ½, the β of these rows, at the threshold.
func jointCut(threshold float64) *adapt.C2TClassifier {
	const steep = 1000
	return &adapt.C2TClassifier{Features: []string{adapt.FeatureProbability}, Mean: []float64{0}, Scale: []float64{1},
		Hidden: [][]float64{{1}}, HiddenBias: []float64{0}, Output: []float64{steep}, OutputBias: -steep * threshold}
}

func c2tChains(b *groupBuilder) {
	addEach(b, "chain K=%d", "chain:depth=%d", "", 3, 5, 10)
	b.group.Curve = addEach(b, "DyMax %g", "assisted:depth=10,schedule=constant,threshold=%g", "", 0.2, 0.3, 0.4, 0.5,
		0.6, 0.7, 0.8)
	for _, p := range []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7} {
		name := fmt.Sprintf("DyJoint %g", p)
		b.add(name, "c2t-chain:threshold=0.5", "").Request.Fitted.C2T = jointCut(p)
		b.group.OnCurve = append(b.group.OnCurve, name)
	}
	b.group.OnCurve = append(b.group.OnCurve, addEach(b, "c2t-chain β=%g", "c2t-chain:threshold=%g", "", 0.3, 0.4, 0.5,
		0.6, 0.7, 0.8, 0.85, 0.9)...)
	b.group.Note = "DyMax stops after a token whose probability is below the threshold, DyJoint and C2T before one " +
		"whose joint probability or confidence is"
}

func c2tSizes(b *groupBuilder) {
	nodes := 1
	for _, level := range method.DefaultShape() {
		for _, n := range level {
			nodes += n
		}
	}
	levels := len(method.DefaultShape())
	static := fmt.Sprintf("static N=%d", nodes)
	b.add(static, "static", "")
	b.add(fmt.Sprintf("eagle2 k=10 d=%d N=%d", levels-1, nodes),
		fmt.Sprintf("eagle2:depth=%d,nodes=%d", levels-1, nodes), static)
	b.add(fmt.Sprintf("eagle2 k=10 d=9 N=%d", nodes), fmt.Sprintf("eagle2:depth=9,nodes=%d", nodes), static)
	addEach(b, fmt.Sprintf("c2t β=%%g N=%d", nodes), fmt.Sprintf("c2t:threshold=%%g,nodes=%d", nodes), static, 0.1, 0.2,
		0.3, 0.4, 0.5)
	b.group.Note = "compare the C2T row whose Tokens are nearest"
}

func c2tTransfer(b *groupBuilder) {
	b.add(c2tBase, "c2t:threshold=0.5", "")
	for _, c := range b.o.Categories {
		file := "c2t-without-" + c + ".json"
		b.c2t("c2t without "+c, file, trained(file, "on prompts of the other categories"), false)
	}
	moved := trained("c2t-moved.json", "--target OTHER --draft OTHER")
	b.c2t("c2t moved from another pair", "c2t-moved.json", moved, true)
	b.c2t("c2t moved and fine-tuned", "c2t-tuned.json", trained("c2t-tuned.json", "--from DIR/c2t-moved.json"), false)
	b.group.Note = "a row of the cross-validation counts in the column of the category that its classifier never saw"
}

func adasdMain(b *groupBuilder) {
	for _, t := range []float64{0, 1} {
		b.plainAt(t)
		fixed := "chain K=5"
		b.add(fixed, "chain:depth=5", "")
		if t > 0 {
			b.add("chain K=5, rejection", "chain:depth=5,verifier=rejection", fixed)
		}
		addEach(b, "assisted %s", "assisted:schedule=%s", fixed, method.ScheduleHeuristic, method.ScheduleConstant)
		addEach(b, "adasd %s", "adasd:variant=%s", fixed, adapt.AdaSDMidpoint, adapt.AdaSDA, adapt.AdaSDB, adapt.AdaSDC)
		b.add("adasd, thresholds kept", "adasd:carry=true", fixed)
		b.add("adasd gen-only", "adasd:verifier=match", fixed)
		b.add("adasd verify-only", "adasd:adapt=fixed,depth=5", fixed)
	}
	b.group.Figures = []string{FigureEntropy}
	b.group.Note = "the paper: 1.08-1.49 times the speed of a fixed chain of 5"
}

// marsShape returns EAGLE-2's tree of depth 7 and k=10 with as many nodes as one pass verifies.
func (b *groupBuilder) marsTree() (name, settings string) {
	n := min(711, b.o.MaxNodes) // 10 + 7·100 candidates and the root
	return fmt.Sprintf("k=10 d=7 N=%d", n), fmt.Sprintf("depth=7,top-k=10,nodes=%d", n)
}

func marsMain(b *groupBuilder) {
	shape, settings := b.marsTree()
	for _, t := range []float64{0, 1} {
		b.plainAt(t)
		strict := "eagle2 " + shape
		b.add(strict, "eagle2:"+settings, "")
		if t > 0 {
			b.add("eagle2 independent "+shape, "eagle2:"+settings+",coupled=false", strict)
		}
		b.add("mars alg1 "+shape, "mars:"+settings, strict)
		if t > 0 {
			b.add("mars sampled "+shape, "mars:"+settings+",mode=sampled", strict)
			b.add("mars sampled independent "+shape, "mars:"+settings+",mode=sampled,coupled=false",
				"eagle2 independent "+shape)
		}
		b.add("mars alg1 gap=1 "+shape, "mars:"+settings+",gap=1", strict)
	}
	b.group.Note = fmt.Sprintf("the paper: acceptance length 13-37 %% larger than strict verification at T=1; "+
		"a tree without pruning has 711 nodes, and one pass verifies %d", b.o.MaxNodes)
}

func marsTheta(b *groupBuilder) {
	shape, settings := b.marsTree()
	for _, t := range []float64{0, 1} {
		b.temperature = t
		strict, mode := "eagle2 "+shape, method.MARSAlg1
		b.add(strict, "eagle2:"+settings, "")
		if t > 0 {
			mode = method.MARSSampled
		}
		for theta := 84; theta <= 96; theta += 2 {
			b.add(fmt.Sprintf("mars %s θ=0.%d", mode, theta),
				fmt.Sprintf("mars:%s,mode=%s,theta=0.%d", settings, mode, theta), strict)
		}
	}
}

func marsGrid(b *groupBuilder) {
	for _, t := range []float64{0, 0.5, 1} {
		b.temperature = t
		for _, k := range []int{3, 5, 7, 10} {
			strict := fmt.Sprintf("chain K=%d", k)
			b.add(strict, fmt.Sprintf("chain:depth=%d", k), "")
			b.add(fmt.Sprintf("mars alg1 chain K=%d", k), fmt.Sprintf("chain:depth=%d,verifier=mars", k), strict)
			if t > 0 {
				b.add(fmt.Sprintf("mars sampled chain K=%d", k),
					fmt.Sprintf("chain:depth=%d,verifier=mars,mode=sampled", k), strict)
			}
		}
	}
}

func coupledMain(b *groupBuilder) {
	for _, t := range []float64{0.8, 1} {
		b.temperature = t
		for _, shape := range []struct{ name, method, independent string }{
			{papersRow, "eagle2", "eagle2:coupled=false"},
			{"eagle2 k=4 d=4 N=16", smallTree, smallTree + ",coupled=false"},
			{"chain K=5", "chain:depth=5", "chain:depth=5,coupled=false"},
		} {
			independent := shape.name + " independent"
			b.add(shape.name, shape.method, independent)
			b.add(independent, shape.independent, "")
		}
		b.add("chain K=5, rejection", "chain:depth=5,verifier=rejection", "chain K=5 independent")
	}
	b.group.Note = "both are exact; rows without a word are coupled, the default"
}

func eagle3Main(b *groupBuilder) {
	for _, t := range []float64{0, 1} {
		b.plainAt(t)
		small := "eagle2 k=4 d=4 N=16"
		b.add(small, smallTree, "")
		b.add("eagle3 k=4 d=4 N=16", "eagle3:depth=4,top-k=4,nodes=16", small)
		b.add(papersRow, "eagle2", "")
		b.add("eagle3 "+papersTree, "eagle3", papersRow)
	}
}

// fixedMethods adds the methods that do not adapt to costs, with trees from small to large.
func fixedMethods(b *groupBuilder) {
	addEach(b, "chain K=%d", "chain:depth=%d", "", 1, 2, 3, 4, 5, 7)
	b.add("ngram", "ngram", "")
	b.add("ngram-simple", "ngram-simple", "")
	b.add("ngram-map", "ngram-map", "")
	b.add("ngram K=3", "ngram:depth=3", "")
	b.add("eagle2 k=3 d=2 N=8", "eagle2:depth=2,top-k=3,nodes=8", "")
	b.add("eagle2 k=4 d=4 N=16", smallTree, "")
}

func baselinesMain(b *groupBuilder) {
	b.plainAt(0)
	fixedMethods(b)
	b.add(papersRow, "eagle2", "")
	b.add("static", "static", "")
	b.add("assisted heuristic", "assisted:schedule=heuristic", "")
	b.add("assisted constant", "assisted:schedule=constant", "")
	b.add("adaedl", "adaedl", "")
	b.plainAt(1)
	b.add("chain K=5", "chain:depth=5", "")
	b.add("chain K=5, rejection", "chain:depth=5,verifier=rejection", "")
	b.add("sampled, without replacement", "sampled", "")
	b.add("static", "static", "")
	b.group.Figures = []string{FigureEntropy}
}

func autoMain(b *groupBuilder) {
	b.plainAt(0)
	b.add("auto", "auto", "")
	fixedMethods(b)
	b.group.Note = "auto should be at least 0.95 on every prompt (median) and 0.98 on the whole, and within 3 % of " +
		"the best fixed row"
}
