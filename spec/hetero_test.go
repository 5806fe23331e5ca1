package spec

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// twoLevels is a draft worked out by hand: the root proposes tokens 10 and 11, with q of
// 1/2 and 1/4; after 10 the draft is unsure of 20 and 21, after 11 it is sure of 22.
func twoLevels() []Level {
	ln := func(q float64) float32 { return float32(math.Log(q)) }
	return []Level{
		{
			Candidates: []Candidate{{10, ln(0.5), 0}, {11, ln(0.25), 0}},
			Beams:      []int32{0, 1}, Entropies: []float32{1.5},
		},
		{
			Candidates: []Candidate{{20, ln(0.4), 0}, {21, ln(0.4), 0}, {22, ln(0.75), 1}, {23, ln(0.125), 1}},
			Entropies:  []float32{2, 0.5},
		},
	}
}

func TestMetaPathByHand(t *testing.T) {
	// P* goes through token 11, whose distribution has the top-1 0.75, although the
	// path through 10 has the larger joint probability (0.2 against 0.1875).
	h := func(p ...float64) float64 { return entropy(p) }
	want := h(2.0/3, 1.0/3) + h(6.0/7, 1.0/7)
	if phi, nodes := MetaPath(twoLevels()); math.Abs(phi-want) > 1e-6 || math.Abs(phi-1.0466302) > 1e-6 || nodes != 3 {
		t.Errorf("Φ is %v over %d nodes, want %v over 3", phi, nodes, want)
	}
	if phi, nodes := MetaPath(twoLevels()[:1]); math.Abs(phi-h(2.0/3, 1.0/3)) > 1e-6 || nodes != 2 {
		t.Errorf("one level: Φ is %v over %d nodes", phi, nodes)
	}
	if phi, nodes := MetaPath(nil); phi != 0 || nodes != 1 {
		t.Errorf("no levels: Φ is %v over %d nodes", phi, nodes)
	}
	sure := []Level{{Candidates: []Candidate{{1, 0, 0}, {2, float32(math.Inf(-1)), 0}}}}
	if phi, _ := MetaPath(sure); phi != 0 {
		t.Errorf("a sure draft has Φ %v", phi)
	}
	// Of beams that are equally sure the first is taken: token 10's.
	even := twoLevels()
	even[1].Candidates[0].LogQ, even[1].Candidates[2].LogQ = float32(math.Log(0.5)), float32(math.Log(0.5))
	want = h(2.0/3, 1.0/3) + h(0.5/0.9, 0.4/0.9)
	if phi, _ := MetaPath(even); math.Abs(phi-want) > 1e-6 {
		t.Errorf("a tie: Φ is %v, want %v", phi, want)
	}
	nothing := []Level{{Candidates: []Candidate{{1, float32(math.Inf(-1)), 0}}}}
	if phi, _ := MetaPath(nothing); phi != 0 {
		t.Errorf("a draft without candidates has Φ %v", phi)
	}
}

// TestMetaPathIsTheDefinitions works Φ out of the draft's distributions, beam by beam.
func TestMetaPathIsTheDefinitions(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 200, 64)
	deep := 0
	for start := range int32(12) {
		for _, r := range []DraftRequest{{Depth: 3, K: 4}, {Depth: 2, K: 3, Coupled: true, Sampling: Sampling{Temperature: 1, Seed: 5}}} {
			draft := newDraft(target, 200, 0.1)
			draft.target = nil
			r.Pending = []int32{start}
			levels, err := draft.DraftTree(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			var b Builder
			tree, err := b.Build(start, levels, MaxNodes)
			if err != nil {
				t.Fatal(err)
			}
			best, want, at := math.Inf(-1), 0.0, int32(-1)
			for node := range int32(tree.Len()) {
				if int(tree.Depths[node]) != r.Depth || tree.IsLeaf(node) {
					continue // not a beam of the last level
				}
				phi, top, seq := 0.0, 0.0, prefix{hash: 1}
				for _, n := range tree.Path(nil, node) {
					seq = seq.then(tree.Tokens[n])
					q := draft.logQ(seq)
					var p []float64
					for _, id := range bestOf(q, r.K) {
						p = append(p, math.Exp(q[id]))
					}
					top = p[0]
					normalise(p)
					phi += entropy(p)
				}
				if top > best+1e-9 {
					best, want, at = top, phi, node
				}
			}
			if phi, nodes := MetaPath(levels); math.Abs(phi-want) > 1e-4 || nodes != r.Depth+2 {
				t.Errorf("start %d, %+v: Φ is %v over %d nodes, want %v", start, r, phi, nodes, want)
			}
			for n := int32(1); int(n) < tree.Len(); n++ {
				if tree.Depths[n] == tree.Depths[at] && tree.Scores[n] > tree.Scores[at] {
					deep++
					break
				}
			}
		}
	}
	if deep == 0 {
		t.Error("P* was always the most likely path, so the choice was not put to the test")
	}
}

func TestHeteroSampleByHand(t *testing.T) {
	// By V: the root, 10 (.5), 11 (.25), 20 and 21 (.2), 22 (.1875), 23 (.03).
	for _, c := range []struct {
		levels, nodes int
		continuation  []int32
		tcr           int
		full          bool
	}{
		{2, 7, []int32{11, 22, 9}, 6, true},
		{2, 7, []int32{11, 23}, 7, true},
		{2, 6, []int32{11, 23}, 3, false}, // 23 is not among the 6 best
		{2, 5, []int32{11, 22}, 3, false},
		{2, 7, []int32{10, 20}, 4, true},
		{2, 7, []int32{10, 21}, 5, true}, // a tie: the lower index first
		{2, 7, []int32{10, 22}, 2, false},
		{2, 7, []int32{9, 22}, 1, false},
		{2, 7, []int32{11}, 3, false}, // the continuation ended first
		{2, 7, nil, 1, false},
		{1, 7, []int32{11, 22}, 3, true},
	} {
		got, err := HeteroSample(twoLevels()[:c.levels], c.nodes, c.continuation)
		if err != nil {
			t.Fatal(err)
		}
		phi, _ := MetaPath(twoLevels()[:c.levels])
		if want := (HeteroPoint{phi, c.tcr, c.full}); got != want {
			t.Errorf("%d levels, N=%d, %v: %+v, want %+v", c.levels, c.nodes, c.continuation, got, want)
		}
	}
	broken := twoLevels()
	broken[0].Beams = []int32{7}
	if _, err := HeteroSample(broken, 7, nil); err == nil {
		t.Error("levels that contradict themselves were taken")
	}
}

// TestSampleIsWhatVerifyingGives drafts against a known continuation and compares with the
// rounds of a generation, where the target judged the same trees.
func TestSampleIsWhatVerifyingGives(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 400, 64)
	draft := newDraft(target, 400, 0.1)
	prompt := []int32{1, 2}
	for _, sampling := range []Sampling{{}, {Temperature: 1, Seed: 3}} {
		o := Options{Sampling: sampling, MaxTokens: 200}
		continuation, _ := plain(target.script, prompt, 400, o)
		alone := newDraft(target, 400, 0.1)
		alone.target = nil
		rounds, full, at := 0, 0, 0
		g, err := New(target, draft, Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Depth: 2, TopK: 3, Nodes: 12})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), prompt, o, func(e *Event) error {
			defer func() { at += len(e.Tokens) }()
			if e.Tree == nil || len(e.Levels) < 3 || at+3 > len(continuation) {
				return nil // cut short by the end
			}
			seq := append(slices.Clone(prompt), continuation[:at]...)
			alone.Reset()
			if len(seq) > 1 {
				if err := alone.Prefill(context.Background(), seq[:len(seq)-1], nil); err != nil {
					return err
				}
			}
			levels, err := alone.DraftTree(context.Background(), DraftRequest{
				Pending: seq[len(seq)-1:], Depth: 2, K: 3, Coupled: sampling.Temperature > 0, Sampling: sampling,
			})
			if err != nil {
				return err
			}
			got, err := HeteroSample(levels, 12, continuation[at:])
			if err != nil {
				return err
			}
			last := e.Path[len(e.Path)-1]
			phi, _ := MetaPath(e.Levels)
			if want := (HeteroPoint{phi, treeRank(e.Tree, last), e.Tree.Depths[last] == 3}); got != want {
				t.Errorf("T=%v, round %d: %+v, the target's verdict gives %+v", sampling.Temperature, e.Round, got, want)
			}
			rounds++
			if got.Full {
				full++
			}
			return nil
		})
		if err != nil || rounds < 20 || full == 0 || full == rounds {
			t.Errorf("T=%v: %d rounds, %d full (%v)", sampling.Temperature, rounds, full, err)
		}
	}
}

// points are n trees of which every second holds a full path; TCR is a step function of Φ.
func points(n int) []HeteroPoint {
	var out []HeteroPoint
	for i := range n {
		phi := 4 * float64(i%100) / 100
		out = append(out, HeteroPoint{phi, 2 + 10*int(phi), true}, HeteroPoint{phi, 59, false})
	}
	return out
}

func TestFitHetero(t *testing.T) {
	if _, err := FitHetero(points(420), 0); err == nil || !strings.Contains(err.Error(), "420 of 840") || !strings.Contains(err.Error(), "80 are missing") {
		t.Errorf("too few paths: %v", err)
	}
	if _, err := FitHetero(append(points(600), HeteroPoint{math.NaN(), 1, true}), 0); err == nil {
		t.Error("an undefined Φ was taken")
	}
	f, err := FitHetero(points(600), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := &HeteroFit{Edges: []float64{0.98, 1.98, 2.98}, Means: []float64{2, 12, 22, 32}, Counts: []int{150, 150, 150, 150}}
	for i := range want.Edges {
		if math.Abs(f.Edges[i]-want.Edges[i]) > 1e-9 {
			t.Fatalf("edges %v, want %v", f.Edges, want.Edges)
		}
	}
	if f.Edges = want.Edges; !reflect.DeepEqual(f, want) || f.Low() != 3 {
		t.Errorf("fitted %+v, low %d", f, f.Low())
	}
	for phi, bin := range map[float64]int{0: 0, 0.98: 0, 0.99: 1, 2.98: 2, 3: 3, 100: 3} {
		if got := f.Bin(phi); got != bin {
			t.Errorf("Φ of %v is in bin %d, want %d", phi, got, bin)
		}
	}
	flat, err := FitHetero(slices.Repeat([]HeteroPoint{{1, 5, true}}, 500), 0)
	if err != nil || flat.Low() != 0 || !reflect.DeepEqual(flat, &HeteroFit{Edges: []float64{}, Means: []float64{5}, Counts: []int{500}}) {
		t.Errorf("samples without structure give %+v (%v)", flat, err)
	}
}

func TestLowEntropyOverlapByHand(t *testing.T) {
	a := points(600)
	shift := slices.Clone(a) // the lowest bin becomes the highest
	for i := range shift {
		if shift[i].Phi < 0.99 {
			shift[i].Phi += 5
		}
	}
	got, err := LowEntropyOverlap([][]HeteroPoint{a, shift, a}, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Low are Φ below 3, of all 1200 rounds: 900. After the shift TCR rises, then falls
	// to 2: bins below 1.98, below 2.98, below 4 and above; 900 are low again, and of
	// them 600 were before. 600/1200.
	want := [][]float64{{1, 0.5, 1}, {0.5, 1, 0.5}, {1, 0.5, 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("overlap %v, want %v", got, want)
	}
	if _, err := LowEntropyOverlap([][]HeteroPoint{a, a[:1100]}, 0); err == nil {
		t.Error("different rounds were compared")
	}
	if _, err := LowEntropyOverlap([][]HeteroPoint{a[:100]}, 0); err == nil {
		t.Error("too few rounds were compared")
	}
}

func TestHeteroBudgetsByHand(t *testing.T) {
	base := Config{Drafter: DrafterEAGLE2, Adapt: AdaptHetero, Depth: 5, TopK: 10, Nodes: 60, Aids: Aids{Hetero: heteroCalibration()}}
	with := func(edit func(*Config)) Config {
		c := base
		edit(&c)
		return c
	}
	for _, c := range []struct {
		name   string
		config Config
		shapes []Budget
		all    Budget
	}{
		{"the paper's", base, []Budget{{6, 10, 60}, {9, 10, 21}, {8, 10, 38}, {7, 10, 61}}, Budget{9, 10, 61}},
		{"extension only", with(func(c *Config) { c.NoPruning = true }), []Budget{{6, 10, 60}, {9, 10, 63}, {8, 10, 62}, {7, 10, 61}}, Budget{9, 10, 63}},
		{"pruning only", with(func(c *Config) { c.NoExtension = true }), []Budget{{6, 10, 60}, {6, 10, 18}, {6, 10, 36}, {6, 10, 60}}, Budget{6, 10, 60}},
		{"no adaptation", with(func(c *Config) { c.NoAdaptation = true }), []Budget{{6, 10, 60}}, Budget{9, 10, 61}},
		{"alpha+1", with(func(c *Config) { c.Alpha = 1 }), []Budget{{6, 10, 60}, {10, 10, 22}, {9, 10, 39}, {8, 10, 62}}, Budget{10, 10, 62}},
		{"alpha-1", with(func(c *Config) { c.Alpha = -1 }), []Budget{{6, 10, 60}, {8, 10, 20}, {7, 10, 37}, {6, 10, 60}}, Budget{8, 10, 60}},
		{"alpha far out", with(func(c *Config) { c.Alpha = 1000 }), []Budget{{6, 10, 60}, {64, 10, 76}, {64, 10, 94}, {64, 10, 118}}, Budget{64, 10, 118}},
		{"rounded up", with(func(c *Config) { c.Depth, c.Nodes = 3, 11 }), []Budget{{4, 10, 11}, {6, 10, 6}, {5, 10, 8}, {4, 10, 11}}, Budget{6, 10, 11}},
		{"no bins", with(func(c *Config) { c.Aids.Hetero = nil }), []Budget{{6, 10, 60}}, Budget{6, 10, 60}},
	} {
		if got := c.config.HeteroShapes(); !slices.Equal(got, c.shapes) {
			t.Errorf("%s: shapes %v, want %v", c.name, got, c.shapes)
		}
		if got := c.config.Budget(); got != c.all {
			t.Errorf("%s: budget %v, want %v", c.name, got, c.all)
		}
	}
}

// bins are entropy bins with edges as given.
func bins(edges []float64) *HeteroFit {
	fit := &HeteroFit{Edges: edges}
	for range len(edges) + 1 {
		fit.Means, fit.Counts = append(fit.Means, 2), append(fit.Counts, 200)
	}
	return fit
}

func heteroConfig(greedy, coupled []float64) Config {
	c := Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Adapt: AdaptHetero, Depth: 2, TopK: 3, Nodes: 12}
	c.Aids.Hetero = &HeteroCalibration{
		CalibrationHeader: CalibrationHeader{Fingerprint: fingerprint().Shaped(c)}, Greedy: bins(greedy), Coupled: bins(coupled),
	}
	return c
}

// These edges put rounds of the scripted draft in every bin.
var (
	spread        = []float64{3.1, 3.16, 3.2}
	spreadCoupled = []float64{2, 2.4, 2.75}
)

// TestHeteroRounds holds every round to the definition, ablations included.
func TestHeteroRounds(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 1000, 64)
	cut := 0 // rounds whose tree the end of the generation made shallower than the base
	for _, edit := range []func(*Config){
		func(*Config) {},
		func(c *Config) { c.NoExtension = true },
		func(c *Config) { c.NoPruning = true },
		func(c *Config) { c.NoAdaptation = true },
		func(c *Config) { c.Alpha = 2 },
		func(c *Config) { c.Nodes, c.Aids.Hetero.Fingerprint.Nodes = 4, 4 }, // ⌈.3·4⌉+1 < |P*|
	} {
		c := heteroConfig(spread, spreadCoupled)
		edit(&c)
		draft := newDraft(target, 1000, 0.1)
		g, err := New(target, draft, c)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]int{}
		stats, err := g.Generate(context.Background(), []int32{1, 2}, Options{MaxTokens: 400}, func(e *Event) error {
			if e.Levels != nil && len(e.Levels) <= c.Depth {
				if cut++; e.Proposal.Bin != 0 {
					t.Errorf("round %d has %d levels, of which the bins know nothing, and bin %d", e.Round, len(e.Levels), e.Proposal.Bin)
				}
			}
			if e.Tree == nil || e.Stats.OutputTokens > 380 {
				return nil
			}
			phi, path := MetaPath(e.Levels[:c.Depth+1])
			bin := c.Aids.Hetero.Greedy.Bin(phi)
			seen[bin]++
			want := Budget{c.Depth + 1, c.TopK, c.Nodes}
			if bin < 3 {
				want = c.heteroBin(bin)
				want.Nodes = max(want.Nodes, path)
			}
			if e.Proposal.Bin != bin+1 || e.Proposal.Phi != phi || len(e.Levels) != want.Levels || e.Tree.Len() != want.Nodes {
				t.Errorf("round %d, Φ %v: bin %d, %d levels, %d nodes, want bin %d and %+v", e.Round, phi, e.Proposal.Bin, len(e.Levels), e.Tree.Len(), bin+1, want)
			}
			return nil
		})
		if err != nil || len(seen) != 4 {
			t.Errorf("%+v: bins seen %v (%v)", c.Knobs, seen, err)
		}
		rounds, nodes, accepted, ranks, phis := 0, 0, 0, 0, 0
		for i, b := range stats.Bins {
			rounds, nodes, accepted = rounds+b.Rounds, nodes+b.Nodes, accepted+b.Accepted
			for _, n := range b.TCR {
				ranks += n
			}
			for j, n := range b.Phi {
				phis += n
				low, high := math.Inf(-1), math.Inf(1)
				if i > 0 {
					low = spread[i-1]
				}
				if i < 3 {
					high = spread[i]
				}
				if n > 0 && (float64(j+1)*PhiStep < low || float64(j)*PhiStep > high) {
					t.Errorf("bin %d counts Φ of %v", i+1, float64(j)*PhiStep)
				}
			}
		}
		// The last rounds have no bin where the tokens left cut the tree short.
		if accepted > stats.Accepted || rounds != phis || rounds < ranks || ranks < rounds-1 || rounds < stats.Rounds-5 || nodes > stats.Nodes {
			t.Errorf("the bins %+v do not add up to %+v", stats.Bins, stats)
		}
	}
	if cut == 0 {
		t.Error("no tree was cut short")
	}
}

func TestBinStatsByHand(t *testing.T) {
	tree := &Tree{Tokens: []int32{1, 2, 3, 4}, Parents: []int32{-1, 0, 0, 2}, Depths: []int32{0, 1, 1, 2}, Scores: []float32{0, -2, -1, -1.5}}
	round := func(bin int, phi float64, path []int32, judged int) *Event {
		return &Event{Proposal: &Draft{Bin: bin, Phi: phi}, Tree: tree, Levels: make([]Level, 3), Path: path, Judged: judged}
	}
	var s Stats
	s.countBin(&Event{Tree: tree, Path: []int32{0}}) // no bins
	s.countBin(round(0, 0, []int32{0}, 2))
	s.countBin(round(2, 0.6, []int32{0, 2, 3}, 2)) // node 3 is third by V
	s.countBin(round(2, 0.25, []int32{0, 1}, 2))   // the fourth
	s.countBin(round(2, 0.24, []int32{0}, 2))
	s.countBin(round(2, 0, []int32{0, 2}, 1)) // cut: nobody judged what comes after
	want := []BinStats{{}, {Rounds: 4, Nodes: 16, Levels: 12, Accepted: 4, Full: 1, TCR: []int{1, 0, 1, 1}, Phi: []int{2, 1, 1}}}
	if !reflect.DeepEqual(s.Bins, want) {
		t.Errorf("counted %+v, want %+v", s.Bins, want)
	}
}

func TestHeteroIsRefused(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 100, 64)
	draft := newDraft(target, 100, 0.1)
	c := heteroConfig(spread, spread)
	c.TopK = 4
	if _, err := c.Parts(target, draft); err == nil || !strings.HasSuffix(err.Error(), "foretoken calibrate hetero --top-k 4 --depth 2 --nodes 12") {
		t.Errorf("bins for another tree: %v", err)
	}
	c = heteroConfig(spread, spread)
	c.Aids.Hetero.Coupled = nil
	generate := func(s Sampling) error {
		g, err := New(target, draft, c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1}, Options{Sampling: s, MaxTokens: 3}, nil)
		return err
	}
	if err := generate(Sampling{}); err != nil {
		t.Errorf("greedy bins at temperature 0: %v", err)
	}
	if err := generate(Sampling{Temperature: 1}); err == nil || !strings.Contains(err.Error(), "foretoken calibrate hetero --temperature") {
		t.Errorf("greedy bins for a coupled draft: %v", err)
	}
	c.Uncoupled = true
	if err := generate(Sampling{Temperature: 1}); err != nil {
		t.Errorf("greedy bins for an uncoupled draft: %v", err)
	}
	c.Uncoupled, c.Aids.Hetero.Coupled, c.Aids.Hetero.Greedy = false, c.Aids.Hetero.Greedy, nil
	if err := generate(Sampling{}); err == nil {
		t.Error("coupled bins at temperature 0 were taken")
	}
}
