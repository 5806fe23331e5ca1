package bench

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"foretoken/spec"
)

// Measure is a mean over repetitions with the standard deviation of a sample (n-1).
type Measure struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"` // 0 with fewer than two repetitions
	N    int     `json:"n"`  // repetitions; 0: not measured
}

func measureOf(xs []float64) Measure {
	m := Measure{N: len(xs)}
	if m.N == 0 {
		return m
	}
	for _, x := range xs {
		m.Mean += x
	}
	m.Mean /= float64(m.N)
	if m.N < 2 {
		return m
	}
	for _, x := range xs {
		m.SD += (x - m.Mean) * (x - m.Mean)
	}
	m.SD = math.Sqrt(m.SD / float64(m.N-1))
	return m
}

// Row is a method on one category, or on all prompts. Every Measure is over repetitions, each of which gives one value.
type Row struct {
	Method      string  `json:"method"`
	Category    string  `json:"category"` // "" is all prompts
	Lossy       bool    `json:"lossy"`
	Plain       bool    `json:"plain"`
	Temperature float64 `json:"temperature"`
	Prompts     int     `json:"prompts"`

	// Speedup is the mean over prompts of the speed relative to plain decoding of the same prompt in the same run.
	// SpeedRatio is the mean speed over plain's mean speed, as in Spec-Bench.
	Speedup    Measure `json:"speedup"`
	SpeedRatio Measure `json:"speed_ratio"`
	TokS       Measure `json:"decode_tok_s"` // mean over prompts
	// AcceptanceLength is committed tokens per target pass, bonus included, over all passes.
	AcceptanceLength Measure `json:"acceptance_length"`
	// Sums over the prompts of one repetition: target passes, rows verified by them (roots included), tokens
	// committed, drafted, accepted, and accepted although the target chose another.
	Calls    Measure `json:"calls"`
	Tokens   Measure `json:"tokens"`
	Output   Measure `json:"output_tokens"`
	Drafted  Measure `json:"drafted"`
	Accepted Measure `json:"accepted"`
	Relaxed  Measure `json:"relaxed"`
	// Mean distance of draft and target, √JSD in base 2, over the tokens that AdaSD's verifier accepted and rejected.
	DistanceAccepted Measure `json:"distance_accepted"`
	DistanceRejected Measure `json:"distance_rejected"`
	// Milliseconds per round. Readback is a part of draft and verify.
	DraftMS    Measure `json:"draft_ms"`
	VerifyMS   Measure `json:"verify_ms"`
	ReadbackMS Measure `json:"readback_ms"`
	HostMS     Measure `json:"host_ms"`
	// SamePrefix and SamePlace are the shares of tokens equal to plain decoding's: up to the first difference, and
	// position by position.
	SamePrefix Measure `json:"same_prefix"`
	SamePlace  Measure `json:"same_place"`
	// Edits is the edit distance to plain decoding's output in tokens, per token of the longer output.
	Edits Measure `json:"edits"`
	Loss  Measure `json:"loss"` // the target's own on the output, nats a token
	// Counts of outputs: equal to plain decoding's, accepted by the parser of those with a prompt that it accepts, and
	// accepted by the type checker of those that complete a function. At temperature 0 repetitions have the same
	// output, and only the first one counts.
	Exact      Proportion `json:"exact"`
	Parses     Proportion `json:"parses"`
	TypeChecks Proportion `json:"type_checks"`

	// Lost counts the cells that count in no time or speed because the device was lost during them.
	Lost int `json:"lost,omitempty"`

	// Median is the mean over prompts of the median speedup over the repetitions, which tolerates one disturbed
	// repetition; Worst is the prompt with the smallest median, and Slow the share of prompts with a median below
	// 0.95. Only rows of all prompts have them.
	Median  float64  `json:"median_speedup"`
	Worst   *Worst   `json:"worst,omitempty"`
	Slow    float64  `json:"slow"`
	Figures *Figures `json:"figures,omitempty"` // of rows of all prompts
	Ratios  []Ratios `json:"ratios,omitempty"`  // to plain decoding and to the row's baselines, see Compare
}

// Worst is a prompt and the median of its speedups.
type Worst struct {
	Prompt  string  `json:"prompt"`
	Speedup float64 `json:"speedup"`
}

// Report is the result of a benchmark.
type Report struct {
	Device string `json:"device"`
	Target string `json:"target"`
	Draft  string `json:"draft"`
	Note   string `json:"note,omitempty"`
	Rows   []Row  `json:"rows"` // per method in the matrix's order: all prompts, then each category
	// Missing lists the methods without rows and the prompts that no method ran on, with the reason.
	Missing []Missing `json:"missing,omitempty"`
	Quick   bool      `json:"quick,omitempty"`  // made with a few prompts, which decide nothing
	Tables  []Group   `json:"tables,omitempty"` // of a suite, which share rows
}

// Group is a table of a suite: methods to compare with each other.
type Group struct {
	Name    string   `json:"name"` // such as papers/mars-theta
	Title   string   `json:"title"`
	Methods []Method `json:"-"`
	Rows    []string `json:"rows"` // the names of its methods
	// Artefacts are the files that rows need.
	Artefacts []string `json:"-"`
	// Categories tells that readers compare the rows by category.
	Categories bool `json:"categories,omitempty"`
	// Against maps a method to the row it is compared with, if any.
	Against map[string]string `json:"against,omitempty"`
	// Curve names the rows of the curve of Tokens over acceptance length, and OnCurve the rows compared with it at
	// their own acceptance length.
	Curve   []string `json:"curve,omitempty"`
	OnCurve []string `json:"on_curve,omitempty"`
	// AtEqualLength holds the rows of OnCurve: their tokens per pass over the curve's at the same acceptance length.
	// Rows beyond the curve's ends have none.
	AtEqualLength map[string]Interval `json:"at_equal_length,omitempty"`
	Figures       []string            `json:"figures,omitempty"` // figures of the group: see the Figure constants
	Note          string              `json:"note,omitempty"`    // how to read it
	// MaxTokens is the length of its requests where its rows' names say it.
	MaxTokens int `json:"max_tokens,omitempty"`
}

// Missing is a method that did not finish, or a prompt that does not fit the context.
type Missing struct {
	Method string `json:"method,omitempty"`
	Prompt string `json:"prompt,omitempty"` // without a method: of all
	Reason string `json:"reason"`
}

// Skipped counts the prompts that no method ran on.
func Skipped(missing []Missing) int {
	n := 0
	for _, m := range missing {
		if m.Method == "" {
			n++
		}
	}
	return n
}

// Row returns a method's row, or nil.
func (r *Report) Row(method, category string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Method == method && r.Rows[i].Category == category {
			return &r.Rows[i]
		}
	}
	return nil
}

// Categories returns the categories of the rows in order of appearance.
func (r *Report) Categories() []string {
	var all []string
	for i := range r.Rows {
		if c := r.Rows[i].Category; c != "" && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// Summarise builds rows from cells in any order: methods in the matrix's order, categories by name.
func Summarise(cells []Cell) Report {
	order := map[bool]int{true: 0, false: 1} // plain decoding before the method that it is the base of
	sorted := slices.SortedStableFunc(slices.Values(cells), func(x, y Cell) int {
		return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(order[x.Plain], order[y.Plain]),
			cmp.Compare(x.Method, y.Method), cmp.Compare(x.Category, y.Category), cmp.Compare(x.Prompt, y.Prompt),
			cmp.Compare(x.Rep, y.Rep))
	})
	report := Report{Rows: []Row{}}
	for len(sorted) > 0 {
		method := leading(sorted, func(c *Cell) string { return c.Method })
		sorted = sorted[len(method):]
		row := summariseRow(method, "")
		row.perPrompt(method)
		report.Rows = append(report.Rows, row)
		for len(method) > 0 {
			category := leading(method, func(c *Cell) string { return c.Category })
			if category[0].Category != "" {
				report.Rows = append(report.Rows, summariseRow(category, category[0].Category))
			}
			method = method[len(category):]
		}
	}
	return report
}

// leading returns the cells up to the first with another key than the first cell's.
func leading(cells []Cell, key func(*Cell) string) []Cell {
	for i := range cells {
		if key(&cells[i]) != key(&cells[0]) {
			return cells[:i]
		}
	}
	return cells
}

// repetition sums the cells of one repetition.
type repetition struct {
	stats                  spec.Stats
	times                  spec.Stats // of the cells whose times count
	cells                  int
	timed                  int // cells with a speedup
	speedups, speed, plain float64
	prefix, equal, edits   int
	length, lossTokens     int
	loss                   float64
}

func (r *repetition) add(c *Cell) {
	r.cells++
	r.stats.Add(&c.Stats)
	if c.Lost == 0 {
		r.times.Add(&c.Stats)
	}
	if s := c.Speedup(); s > 0 {
		r.timed++
		r.speedups += s
		r.speed += c.TokS
		r.plain += c.PlainTokS
	}
	r.prefix, r.equal, r.length = r.prefix+c.Prefix, r.equal+c.Equal, r.length+c.Length
	r.edits, r.loss, r.lossTokens = r.edits+c.Edits, r.loss+c.Loss, r.lossTokens+c.LossTokens
}

// summariseRow builds a row from a method's cells.
func summariseRow(cells []Cell, category string) Row {
	first := &cells[0]
	row := Row{Method: first.Method, Category: category, Lossy: first.Lossy, Plain: first.Plain,
		Temperature: first.Temperature}
	var reps []*repetition
	prompts := map[string]bool{}
	for i := range cells {
		c := &cells[i]
		for len(reps) <= c.Rep {
			reps = append(reps, &repetition{})
		}
		reps[c.Rep].add(c)
		if c.Lost > 0 {
			row.Lost++
		}
		prompts[c.Prompt] = true
	}
	row.Prompts = len(prompts)
	// over measures one value of every repetition that has it.
	over := func(value func(*repetition) (float64, int)) Measure {
		var xs []float64
		for _, r := range reps {
			if x, n := value(r); r.cells > 0 && n > 0 {
				xs = append(xs, x)
			}
		}
		return measureOf(xs)
	}
	mean := func(sum func(*repetition) float64, of func(*repetition) int) Measure {
		return over(func(r *repetition) (float64, int) { return sum(r) / float64(of(r)), of(r) })
	}
	stat := func(value func(*spec.Stats) float64) Measure {
		return over(func(r *repetition) (float64, int) { return value(&r.stats), r.stats.Calls })
	}
	times := func(value func(*spec.Stats) time.Duration) Measure {
		return over(func(r *repetition) (float64, int) { return r.times.PerRound(value(&r.times)), r.times.Calls })
	}
	count := func(value func(*spec.Stats) int) Measure {
		return stat(func(s *spec.Stats) float64 { return float64(value(s)) })
	}
	distance := func(sum func(*spec.DistanceStats) spec.DistanceSum) Measure {
		return over(func(r *repetition) (float64, int) {
			d := sum(&r.stats.Distances)
			return d.Mean(), d.Tokens
		})
	}
	timed := func(r *repetition) int { return r.timed }
	row.Speedup = mean(func(r *repetition) float64 { return r.speedups }, timed)
	row.SpeedRatio = over(func(r *repetition) (float64, int) { return r.speed / r.plain, r.timed })
	row.TokS = mean(func(r *repetition) float64 { return r.speed }, timed)
	row.AcceptanceLength = stat((*spec.Stats).AcceptedLength)
	row.Calls = count(func(s *spec.Stats) int { return s.Calls })
	row.Tokens = count(func(s *spec.Stats) int { return s.Nodes })
	row.Output = count(func(s *spec.Stats) int { return s.OutputTokens })
	row.Drafted = count(func(s *spec.Stats) int { return s.Drafted })
	row.Accepted = count(func(s *spec.Stats) int { return s.Accepted })
	row.Relaxed = count(func(s *spec.Stats) int { return s.Relaxed })
	row.DistanceAccepted = distance(func(d *spec.DistanceStats) spec.DistanceSum { return d.Accepted })
	row.DistanceRejected = distance(func(d *spec.DistanceStats) spec.DistanceSum { return d.Rejected })
	row.DraftMS = times(func(s *spec.Stats) time.Duration { return s.Draft })
	row.VerifyMS = times(func(s *spec.Stats) time.Duration { return s.Verify })
	row.ReadbackMS = times(func(s *spec.Stats) time.Duration { return s.Readback })
	row.HostMS = times(func(s *spec.Stats) time.Duration { return s.Host })
	length := func(r *repetition) int { return r.length }
	row.SamePrefix = mean(func(r *repetition) float64 { return float64(r.prefix) }, length)
	row.SamePlace = mean(func(r *repetition) float64 { return float64(r.equal) }, length)
	row.Loss = mean(func(r *repetition) float64 { return r.loss }, func(r *repetition) int { return r.lossTokens })
	row.Edits = mean(func(r *repetition) float64 { return float64(r.edits) }, length)
	row.Exact = share(cells, func(c *Cell) (bool, bool) { return c.Length > 0, c.Prefix == c.Length })
	row.Parses = share(cells, func(c *Cell) (bool, bool) { return c.Judged, c.Parses })
	row.TypeChecks = share(cells, func(c *Cell) (bool, bool) { return c.Completed, c.TypeChecks })
	return row
}

// share counts the outputs that are counted, and the good ones among them.
func share(cells []Cell, of func(*Cell) (counted, good bool)) Proportion {
	k, n := 0, 0
	for i := range cells {
		c := &cells[i]
		if counted, good := of(c); counted && (c.Rep == 0 || c.Temperature > 0) {
			n++
			if good {
				k++
			}
		}
	}
	return proportionOf(k, n)
}

// perPrompt fills in the fields that only a row of all prompts has.
func (row *Row) perPrompt(cells []Cell) {
	speedups := map[string][]float64{}
	for i := range cells {
		c := &cells[i]
		if s := c.Speedup(); s > 0 {
			speedups[c.Prompt] = append(speedups[c.Prompt], s)
		}
		if c.Figures != nil {
			if row.Figures == nil {
				row.Figures = newFigures()
			}
			row.Figures.merge(c.Figures)
		}
	}
	slow := 0
	for _, prompt := range slices.Sorted(maps.Keys(speedups)) {
		m := median(speedups[prompt])
		row.Median += m / float64(len(speedups))
		if m < slowBelow {
			slow++
		}
		if w := row.Worst; w == nil || m < w.Speedup {
			row.Worst = &Worst{Prompt: prompt, Speedup: m}
		}
	}
	if len(speedups) > 0 {
		row.Slow = float64(slow) / float64(len(speedups))
	}
}

// slowBelow is the speedup below which a prompt counts as slowed down.
const slowBelow = 0.95

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
