//go:build !js

package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// BigTree is the number of nodes above which a row costs so much that it gets fewer prompts and tokens.
const BigTree = 128

// Sizes bounds the prompts and seeds of a row.
type Sizes struct {
	Prompts, MostPrompts int
	Seeds                int // at most; temperature 0 needs one
	MaxTokens            int // 0: the row's own
	// Width is the half-width of the interval of a row's Calls and Tokens over its baseline's, relative to the ratio,
	// below which the row needs no more prompts and seeds; 0: it gets Prompts with one seed.
	Width float64
}

// The sizes of the tables in the documentation.
var (
	FullSizes  = Sizes{Prompts: 20, MostPrompts: 80, Seeds: 5, Width: 0.02}
	BigSizes   = Sizes{Prompts: 10, MostPrompts: 10, Seeds: 2, MaxTokens: 48, Width: 1e-9}
	QuickSizes = Sizes{Prompts: 8, MostPrompts: 8, Seeds: 1, MaxTokens: 32}
	QuickBig   = Sizes{Prompts: 5, MostPrompts: 5, Seeds: 1, MaxTokens: 24}
)

// SuiteRun measures the counts of the rows of tables, on as many prompts and seeds as they need. Prompts and seeds are
// taken in the matrix's order, so that a row has the prompts of every row with fewer.
type SuiteRun struct {
	Matrix     Matrix // Methods and Repeat are set by the tables
	Groups     []Group
	Small, Big Sizes // of rows with trees of at most, and of more than 128 nodes
	// Estimate, when not nil, receives the time that the run takes at most, before its first prompt, and the time that
	// a stage still takes, after the stage's first prompt. A stage adds prompts or seeds to rows that need them.
	Estimate func(left time.Duration, stage bool)
}

// suiteRow is a row with what it is compared with.
type suiteRow struct {
	Method
	index int
	bases []string
	big   bool
	open  bool // needs more prompts or seeds
}

// rows returns the rows with the tokens of their sizes.
func (r *SuiteRun) rows() ([]*suiteRow, error) {
	methods, err := MethodsOf(r.Groups)
	if err != nil {
		return nil, err
	}
	rows, by := make([]*suiteRow, len(methods)), map[string]*suiteRow{}
	for i, m := range methods {
		rows[i] = &suiteRow{Method: m, index: i, open: true, big: m.Request.Config().Budget().Nodes > BigTree}
		by[m.Name] = rows[i]
	}
	for _, g := range r.Groups {
		for name, base := range g.Against {
			row := by[name]
			if !slices.Contains(row.bases, base) { // bound: tables of a file
				row.bases = append(row.bases, base)
			}
		}
	}
	for _, row := range rows { // a base has the prompts and tokens of its rows
		for _, base := range row.bases {
			by[base].big = by[base].big || row.big
		}
	}
	for _, row := range rows {
		for _, base := range row.bases {
			row.big = row.big || by[base].big
		}
		if n := r.sizes(row.big).MaxTokens; n > 0 {
			row.Request.MaxTokens = n
		}
	}
	return rows, nil
}

func (r *SuiteRun) sizes(big bool) Sizes {
	if big {
		return r.Big
	}
	return r.Small
}

// Run measures the counts. emit receives every cell once.
func (r *SuiteRun) Run(ctx context.Context, s Session, emit func(Cell)) error {
	rows, err := r.rows()
	if err != nil {
		return err
	}
	c := &suiteCells{cells: map[string]*Cell{}, keys: map[string]*Cell{}, index: map[string]int{}, emit: emit,
		finished: r.Matrix.Finished}
	for _, row := range rows {
		c.index[row.Name] = row.index
	}
	if r.Estimate != nil {
		most, err := r.predict(ctx, s, rows)
		if err != nil {
			return err
		}
		r.Estimate(most, false)
	}
	for _, big := range []bool{false, true} {
		some := slices.DeleteFunc(slices.Clone(rows), func(row *suiteRow) bool { return row.big != big })
		if len(some) == 0 {
			continue
		}
		if err := r.runSize(ctx, s, some, r.sizes(big), c); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// runSize measures the rows of one size until their intervals are narrow.
func (r *SuiteRun) runSize(ctx context.Context, s Session, rows []*suiteRow, sizes Sizes, c *suiteCells) error {
	most := min(sizes.MostPrompts, len(r.Matrix.Prompts))
	n, seeds := min(sizes.Prompts, most), 1
	for {
		m := r.Matrix
		m.Counts, m.Prompts, m.Finished, m.Methods = true, r.Matrix.Prompts[:n], c.find, nil
		for _, row := range rows {
			if row.open || slices.ContainsFunc(rows, func(o *suiteRow) bool { // bound: rows²
				return o.open && slices.Contains(o.bases, row.Name) // bound: tables of a file
			}) {
				one := row.Method
				one.Repeat = 1
				if row.Request.Sampling().Temperature > 0 {
					one.Repeat = seeds
				}
				m.Methods = append(m.Methods, one)
			}
		}
		failed := map[string]bool{}
		if problem := m.Problem; problem != nil {
			m.Problem = func(method, prompt string, err error) error {
				failed[method] = true
				return problem(method, prompt, err)
			}
		}
		r.estimate(&m, c)
		if err := Run(ctx, s, m, c.add); err != nil && (len(failed) < len(m.Methods) || ctx.Err() != nil) {
			return err
		}
		rows = slices.DeleteFunc(rows, func(row *suiteRow) bool { return failed[row.Name] })
		last := n == most && seeds == sizes.Seeds
		again := false
		for _, row := range rows {
			cold := row.Request.Sampling().Temperature == 0
			row.open = row.open && !(last || cold && n == most || c.narrow(row, sizes.Width))
			again = again || row.open
		}
		switch {
		case !again || sizes.Width == 0:
			return ctx.Err()
		case n < most:
			n = min(n+sizes.Prompts, most)
		default:
			seeds++
		}
	}
}

// probeTokens is the length of the requests that predict the time of a run.
const probeTokens = 8

// predict returns the time of all cells that are not measured yet, with the most prompts and seeds. It decodes a few
// tokens of the first prompt, once for each drafter and size of draft.
func (r *SuiteRun) predict(ctx context.Context, s Session, rows []*suiteRow) (all time.Duration, err error) {
	type times struct{ prefill, token time.Duration }
	known := map[string]times{}
	m := r.Matrix
	m.Counts = true
	for _, row := range rows {
		left := r.unmeasured(&m, row)
		if left == 0 || row.Missing != "" || s.Check(row.Request) != nil {
			continue
		}
		c := row.Request.Config()
		kind := fmt.Sprint(c.Drafter, c.Source, c.Budget())
		t, ok := known[kind]
		if !ok {
			request := row.Request
			request.MaxTokens, request.NoReuse = probeTokens, true
			start := time.Now()
			result, err := s.Generate(ctx, m.Prompts[0].Prompt, warmup(request), nil)
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			if err != nil { // the run says so
				continue
			}
			t.token = result.Stats.Decode / time.Duration(max(result.Stats.OutputTokens, 1))
			t.prefill = max(time.Since(start)-result.Stats.Decode, 0)
			known[kind] = t
		}
		all += time.Duration(left) * (t.prefill + time.Duration(row.Request.MaxTokens)*t.token)
	}
	return all, nil
}

// unmeasured counts the cells that a row lacks.
func (r *SuiteRun) unmeasured(m *Matrix, row *suiteRow) (n int) {
	sizes, seeds := r.sizes(row.big), 1
	if row.Request.Sampling().Temperature > 0 {
		seeds = sizes.Seeds
	}
	for i := range min(sizes.MostPrompts, len(m.Prompts)) {
		for rep := range seeds {
			finished := false
			if m.Finished != nil {
				_, finished = m.Finished(m.key(&row.Method, &m.Prompts[i], rep))
			}
			if !finished {
				n++
			}
		}
	}
	return n
}

// estimate sets a matrix's progress to tell how long it takes, from the time of its first prompt.
func (r *SuiteRun) estimate(m *Matrix, c *suiteCells) {
	if r.Estimate == nil {
		return
	}
	progress, from, told, before := m.Progress, time.Now(), false, c.measured
	m.Progress = func(done, total int) {
		n := c.measured - before
		if n == 0 { // found cells, which come first, take no time
			from = time.Now()
		}
		if n >= len(m.Methods) && !told && done < total {
			told = true
			r.Estimate(time.Since(from)*time.Duration(total-done)/time.Duration(n), true)
		}
		if progress != nil {
			progress(done, total)
		}
	}
}

// suiteCells collects the cells of runs over growing numbers of prompts and seeds.
type suiteCells struct {
	cells    map[string]*Cell // by row, prompt and repetition
	keys     map[string]*Cell // by key
	index    map[string]int   // of rows
	emit     func(Cell)
	finished func(key string) (Cell, bool)
	measured int // cells that were not found
}

func (c *suiteCells) find(key string) (Cell, bool) {
	if cell := c.keys[key]; cell != nil {
		return *cell, true
	}
	if c.finished == nil {
		return Cell{}, false
	}
	return c.finished(key)
}

func (c *suiteCells) add(cell Cell) {
	if !cell.Resumed {
		c.measured++
	}
	index, ours := c.index[cell.Method]
	name := cellName(cell.Method, cell.Prompt, cell.Rep)
	if !ours || c.cells[name] != nil { // plain decoding that no table has, or a cell of an earlier run
		return
	}
	cell.Index = index
	c.cells[name], c.keys[cell.Key] = &cell, &cell
	c.emit(cell)
}

func cellName(method, prompt string, rep int) string {
	return fmt.Sprint(method, "\x00", prompt, "\x00", rep)
}

// narrow reports whether the intervals of a row's Calls and Tokens over each of its baselines are narrower than width;
// a row without any is.
func (c *suiteCells) narrow(row *suiteRow, width float64) bool {
	for _, base := range row.bases {
		prompts := comparison{}
		for _, cell := range c.cells {
			if cell.Method != row.Name {
				continue
			}
			if other := c.cells[cellName(base, cell.Prompt, cell.Rep)]; other != nil {
				prompts.add(cell, other)
			}
		}
		calls, tokens := prompts.counts()
		for _, i := range []Interval{calls, tokens} {
			if !((i.High-i.Low)/2 < width*i.Ratio) {
				return false
			}
		}
	}
	return true
}

// WithTimes takes the times and speeds of rows from another report of the same rows; nil leaves them out.
func (r *Report) WithTimes(times *Report) {
	for i := range r.Rows {
		row, from := &r.Rows[i], &Row{}
		if times != nil {
			if t := times.Row(row.Method, row.Category); t != nil {
				from = t
			}
		}
		row.Speedup, row.SpeedRatio, row.TokS = from.Speedup, from.SpeedRatio, from.TokS
		row.DraftMS, row.VerifyMS = from.DraftMS, from.VerifyMS
		row.ReadbackMS, row.HostMS = from.ReadbackMS, from.HostMS
		row.Lost, row.Median, row.Worst, row.Slow = from.Lost, from.Median, from.Worst, from.Slow
		for k := range row.Ratios {
			ratios := &row.Ratios[k]
			ratios.Speed = Interval{}
			for _, t := range from.Ratios {
				if t.Against == ratios.Against {
					ratios.Speed = t.Speed
				}
			}
		}
	}
}

// KeepTables records the tables of a report, and leaves out what they do not show: categories and figures.
func (r *Report) KeepTables(groups []Group) {
	r.Tables = groups
	categories, figures := map[string]bool{}, map[string]bool{}
	for _, g := range groups {
		for _, name := range g.Rows {
			categories[name] = categories[name] || g.Categories
			figures[name] = figures[name] || len(g.Figures) > 0
		}
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(row Row) bool { return row.Category != "" && !categories[row.Method] })
	for i := range r.Rows {
		if !figures[r.Rows[i].Method] {
			r.Rows[i].Figures = nil
		}
	}
}
