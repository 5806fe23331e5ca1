// Package bench measures decoding methods against plain decoding on a foretoken.Session. A Matrix of methods, prompts
// and repetitions says what runs; further functions make the comparisons of the papers, reports, costs of passes and
// profiles. Commands and pages only print what it returns.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// Cell is one method on one prompt in one repetition.
type Cell struct {
	Key string `json:"key"`
	// of the method in the matrix; plain decoding comes before the methods it is the base of
	Index    int    `json:"index"`
	Method   string `json:"method"`
	Prompt   string `json:"prompt"`
	Category string `json:"category"`
	Rep      int    `json:"rep"`
	Plain    bool   `json:"plain,omitempty"`
	Lossy    bool   `json:"lossy,omitempty"`

	Temperature float64    `json:"temperature"`
	Stats       spec.Stats `json:"stats"`
	// TokS is output tokens per second of decoding, without prefill and without the time of the benchmark itself.
	// PlainTokS is the speed of plain decoding with the same prompt in the same block and repetition.
	TokS      float64 `json:"decode_tok_s"`
	PlainTokS float64 `json:"plain_decode_tok_s"`
	// Agreement with plain decoding: Prefix tokens up to the first difference, Equal tokens at the same position,
	// of Length, the longer output's. Edits is the edit distance in tokens.
	Prefix int `json:"prefix"`
	Equal  int `json:"equal"`
	Length int `json:"length"`
	Edits  int `json:"edits"`
	// Loss is the target's own, summed over LossTokens output tokens, in nats.
	Loss       float64 `json:"loss"`
	LossTokens int     `json:"loss_tokens"`
	Judgement
	Figures *Figures `json:"figures,omitempty"`
	// Carried holds what AdaSD carries on to the row's next prompt.
	Carried *adapt.AdaSDRecords `json:"carried,omitempty"`

	// Lost counts the device losses during the cell, or during the plain decoding it is compared with. Its times
	// include reopening the device and count in no speed; its text and counts are valid.
	Lost int `json:"lost,omitempty"`

	// Base is the row of plain decoding with the same sampling and length.
	Base string `json:"-"`
	// Resumed reports that the cell comes from Matrix.Finished.
	Resumed bool `json:"-"`
}

// Speedup is over plain decoding of the same prompt in the same repetition; 0 if either took no measurable time, or
// the device was lost.
func (c *Cell) Speedup() float64 {
	if c.PlainTokS == 0 || c.Lost > 0 {
		return 0
	}
	return c.TokS / c.PlainTokS
}

// PlainName is the name of plain decoding's row.
const PlainName = "plain"

// entry is a method with the matrix's defaults.
type entry struct {
	Method
	index    int
	depth    int  // d of an EAGLE-2 tree, else -1
	baseline bool // plain decoding as the base of a block, not itself in the matrix
	warm     int  // 1 + the device losses at its last warmup; 0: not warm
	skipped  bool // skipped after a problem
}

// block is a group of methods that share plain decoding, the first of them.
type block struct{ methods []*entry }

// runner measures a matrix.
type runner struct {
	matrix Matrix
	s      Session
	emit   func(Cell)
	blocks []*block
	total  int
	done   int
	long   map[*Prompt]bool // prompts that do not fit the context
	scores map[string]score
	judged map[string]Judgement
	plains map[string]plainRun // with Matrix.Counts: by sampling, prompt and repetition
	bases  map[string]string   // the row of plain decoding for a sampling
}

type plainRun struct {
	cell Cell
	ids  []int32
}

type score struct {
	loss float64
	n    int
}

// Run measures a matrix. A repetition runs every method once on each prompt. Blocks of Matrix.Block methods share plain
// decoding, which runs before and after them, so that a drifting clock speed favours neither; the order alternates from
// prompt to prompt. emit receives every cell, also the ones of Matrix.Finished. When ctx ends, Run returns its error.
func Run(ctx context.Context, s Session, matrix Matrix, emit func(Cell)) error {
	b := &runner{matrix: matrix, s: s, emit: emit, long: map[*Prompt]bool{}, scores: map[string]score{},
		judged: map[string]Judgement{}, plains: map[string]plainRun{}, bases: map[string]string{}}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	most := 0
	for _, block := range b.blocks {
		for _, m := range block.methods {
			most = max(most, m.Repeat)
		}
	}
	b.progress(0)
	for rep := range most {
		for i := range b.matrix.Prompts {
			for at := range b.blocks {
				block := b.blocks[at]
				if (i+rep)%2 == 1 { // alternate the order: no method always follows another
					block = b.blocks[len(b.blocks)-1-at]
				}
				if err := b.block(ctx, block.methods, &b.matrix.Prompts[i], rep, (i+rep)%2 == 1); err != nil {
					return err
				}
			}
		}
	}
	if len(b.long) == len(b.matrix.Prompts) {
		return errors.New("foretoken: none of the benchmark's prompts fits the context")
	}
	return ctx.Err()
}

func (b *runner) progress(n int) {
	b.done += n
	if b.matrix.Progress != nil {
		b.matrix.Progress(b.done, b.total)
	}
}

// prepare checks the methods, assigns them to blocks and counts the cells.
func (b *runner) prepare(ctx context.Context) error {
	p := &b.matrix
	if p.Repeat == 0 {
		p.Repeat = 3
	}
	if p.Block == 0 {
		p.Block = 8
	}
	if p.Repeat < 0 || p.Block < 0 {
		return fmt.Errorf("foretoken: a benchmark of %d repetitions in blocks of %d", p.Repeat, p.Block)
	}
	if len(p.Methods) == 0 || len(p.Prompts) == 0 {
		return errors.New("foretoken: a benchmark needs at least one method and one prompt")
	}
	open := map[string]*block{} // the open block of each sampling
	names := map[string]bool{}
	for i := range p.Methods {
		m := &entry{Method: p.Methods[i], index: i, depth: -1}
		if m.Repeat == 0 {
			m.Repeat = p.Repeat
		}
		if m.Request.Carry { // rows do not share their thresholds
			m.Request.Fitted.AdaSD = &adapt.AdaSDRecords{}
		}
		if c := m.Request.Config(); c.Drafter == method.DrafterEAGLE2 && c.Adapt != method.AdaptC2T {
			m.depth = c.Depth
		}
		var problem error
		if m.Missing != "" {
			problem = errors.New(m.Missing)
		} else {
			problem = b.s.Check(m.Request)
		}
		if problem != nil {
			if err := b.problem(m, "", problem); err != nil {
				return err
			}
			continue
		}
		how := m.sampling()
		_, seen := b.bases[how]
		switch block := open[how]; {
		case m.plain() && seen: // duplicate of plain decoding
			continue
		case m.plain():
			b.bases[how] = m.Name
		case block == nil || len(block.methods) > p.Block:
			delete(open, how)
			base := &entry{Method: Method{Name: PlainName, Request: plainRequest(m.Request), Repeat: m.Repeat},
				index: i, depth: -1, baseline: seen}
			if t := m.Request.Sampling().Temperature; t != 0 {
				base.Name = fmt.Sprintf("%s T=%g", PlainName, t)
			}
			if names[base.Name] && !base.baseline {
				base.Name += fmt.Sprintf(" (%d)", i) // same temperature, other sampling settings
			}
			names[base.Name] = true
			if !seen {
				b.bases[how] = base.Name
			}
			b.add(open, how, base)
		}
		b.add(open, how, m)
	}
	for _, block := range b.blocks {
		plain := block.methods[0]
		for _, m := range block.methods {
			plain.Repeat = max(plain.Repeat, m.Repeat)
		}
		for _, m := range block.methods {
			if !m.baseline {
				b.total += m.Repeat * len(p.Prompts)
			}
		}
	}
	if len(b.blocks) == 0 {
		return errors.New("foretoken: none of the benchmark's methods can be run")
	}
	return ctx.Err()
}

// add appends a method to the open block of its sampling, or opens one.
func (b *runner) add(open map[string]*block, how string, m *entry) {
	if open[how] == nil {
		open[how] = &block{}
		b.blocks = append(b.blocks, open[how])
	}
	open[how].methods = append(open[how].methods, m)
}

// problem reports a method that cannot run, or a prompt that failed.
func (b *runner) problem(m *entry, prompt string, err error) error {
	if b.matrix.Problem != nil && !errors.Is(err, webgpu.ErrDeviceLost) {
		return b.matrix.Problem(m.Name, prompt, err)
	}
	if prompt != "" {
		return fmt.Errorf("foretoken: method %s on prompt %s: %w", m.Name, quote.Name(prompt), err)
	}
	return fmt.Errorf("foretoken: method %s: %w", m.Name, err)
}

// block runs the methods of a block on a prompt, and plain decoding before and after them.
func (b *runner) block(ctx context.Context, block []*entry, prompt *Prompt, rep int, reversed bool) error {
	if err := ctx.Err(); err != nil || b.long[prompt] {
		return err
	}
	var todo []*entry
	plain, wanted := block[0], false // wanted: the matrix has a cell of plain decoding here
	for _, m := range block {
		if m.skipped || rep >= m.Repeat || m.baseline || b.resume(m, prompt, rep) {
			continue
		}
		if m == plain {
			wanted = true
			continue
		}
		todo = append(todo, m)
	}
	if len(todo) == 0 && !wanted {
		return nil
	}
	if reversed {
		slices.Reverse(todo)
	}
	base, want, err := b.plain(ctx, plain, prompt, rep)
	if err != nil { // without its base the block has no speedup
		if errors.Is(err, foretoken.ErrContextFull) && b.matrix.Problem != nil {
			b.long[prompt] = true
			return b.matrix.Problem("", prompt.ID, err)
		}
		return b.failed(ctx, plain, prompt, err)
	}
	cells, outputs := []Cell{}, [][]int32{}
	for _, m := range todo {
		cell, ids, err := b.measure(ctx, m, prompt, rep)
		if err != nil {
			if err := b.failed(ctx, m, prompt, err); err != nil {
				return err
			}
			m.skipped = true
			continue
		}
		cells, outputs = append(cells, cell), append(outputs, ids)
	}
	if len(todo) > 0 && !b.matrix.Counts {
		after, ids, err := b.measure(ctx, plain, prompt, rep)
		if err != nil {
			return b.failed(ctx, plain, prompt, err)
		}
		switch {
		case base.Lost > 0: // the other run alone is the base
			base, want = after, ids
		case after.Lost == 0:
			base.TokS = harmonic(base.TokS, after.TokS)
		}
	}
	if wanted {
		cells, outputs = slices.Insert(cells, 0, base), slices.Insert(outputs, 0, want)
	}
	for i := range cells {
		c := &cells[i]
		c.PlainTokS = base.TokS
		if !c.Plain {
			c.Lost += base.Lost
		}
		c.Prefix, c.Equal, c.Length = agreement(outputs[i], want)
		c.Edits = editDistance(outputs[i], want)
		b.emit(*c)
		b.progress(1)
	}
	return nil
}

// plain measures plain decoding, or with Matrix.Counts returns it from an earlier block.
func (b *runner) plain(ctx context.Context, m *entry, prompt *Prompt, rep int) (Cell, []int32, error) {
	if !b.matrix.Counts {
		return b.measure(ctx, m, prompt, rep)
	}
	key := fmt.Sprint(m.sampling(), prompt.ID, rep)
	known, ok := b.plains[key]
	if !ok {
		var err error
		if known.cell, known.ids, err = b.measure(ctx, m, prompt, rep); err != nil {
			return known.cell, nil, err
		}
		b.plains[key] = known
	}
	known.cell.Key = b.matrix.key(&m.Method, prompt, rep)
	b.label(&known.cell, m, prompt, rep)
	return known.cell, known.ids, nil
}

// resume emits a cell that was measured earlier, if it exists.
func (b *runner) resume(m *entry, prompt *Prompt, rep int) bool {
	if b.matrix.Finished == nil {
		return false
	}
	cell, ok := b.matrix.Finished(b.matrix.key(&m.Method, prompt, rep))
	if !ok || cell.Lost > 0 { // cells with a loss are measured again
		return false
	}
	b.label(&cell, m, prompt, rep)
	cell.Resumed = true
	if carried := m.Request.Fitted.AdaSD; carried != nil && cell.Carried != nil {
		*carried = *cell.Carried
	}
	b.emit(cell)
	b.progress(1)
	return true
}

// failed turns the error of a cell into the error of the run.
func (b *runner) failed(ctx context.Context, m *entry, prompt *Prompt, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.problem(m, prompt.ID, err)
}

// harmonic returns the speed over two runs of equal length from their speeds.
func harmonic(x, y float64) float64 {
	if x == 0 || y == 0 {
		return max(x, y)
	}
	return 2 * x * y / (x + y)
}

func (b *runner) label(c *Cell, m *entry, prompt *Prompt, rep int) {
	c.Index, c.Method, c.Prompt, c.Category, c.Rep = m.index, m.Name, prompt.ID, prompt.Category, rep
	c.Plain, c.Lossy, c.Temperature = m.plain(), m.Lossy(), m.Request.Sampling().Temperature
	c.Base = b.bases[m.sampling()]
}

// measure runs one cell; the caller adds the comparison with plain decoding. Above temperature 0 each repetition
// has its own seed.
func (b *runner) measure(ctx context.Context, m *entry, prompt *Prompt, rep int) (Cell, []int32, error) {
	cell := Cell{Key: b.matrix.key(&m.Method, prompt, rep)}
	b.label(&cell, m, prompt, rep)
	var figures *Figures
	if !m.plain() {
		figures = newFigures()
	}
	request := m.Request
	request.NoReuse = true // no prefix cached by the method before
	if request.Sampling().Temperature > 0 {
		request.Seed += uint64(rep)
	}
	// Compilation and other first-use work does not count. A reopened device has to warm up again.
	losses := b.s.Losses()
	if b.matrix.Counts {
		m.warm = 1 + losses
	}
	for try := 0; m.warm != 1+losses && try < 3; try++ {
		if _, err := b.s.Generate(ctx, prompt.Prompt, warmup(request), nil); err != nil {
			return cell, nil, err
		}
		m.warm, losses = 1+losses, b.s.Losses()
	}
	losses = m.warm - 1 // without the losses that a warmup run made up for
	dev, submits := b.s.Device(), 0
	result, err := b.s.Generate(ctx, prompt.Prompt, request, func(e *foretoken.Event) error {
		if figures != nil {
			figures.observe(e.Round, m.depth)
			if dev != nil {
				now := dev.Counters().Submits
				figures.observeSubmits(e.Round, now-submits)
				submits = now
			}
		}
		return nil
	})
	if err != nil {
		return cell, nil, err
	}
	if result.Finish == spec.FinishAborted {
		return cell, nil, context.Canceled
	}
	cell.Stats, cell.Figures, cell.Lost = result.Stats, figures, b.s.Losses()-losses
	if carried := request.Fitted.AdaSD; carried != nil {
		cell.Carried = new(*carried)
	}
	d := result.Stats.Decode - result.Stats.Emit
	if figures != nil {
		figures.DecodeNS = int64(d)
		if cell.Lost > 0 {
			figures.DecisionNS, figures.DecodeNS, figures.Rounds, figures.Joint, figures.Submits = 0, 0, 0, 0, 0
		}
	}
	if d > 0 && !b.matrix.Counts {
		cell.TokS = float64(result.Stats.OutputTokens) / d.Seconds()
	}
	if err := b.score(ctx, &cell, result); err != nil {
		return cell, nil, err
	}
	if b.matrix.Judge != nil {
		text := prompt.Prompt + "\x00" + result.Text
		v, ok := b.judged[text]
		if !ok {
			v = b.matrix.Judge(prompt.Prompt, result.Text)
			b.judged[text] = v
		}
		cell.Judgement = v
	}
	return cell, result.TokenIDs, nil
}

// warmup returns a request that leaves the thresholds which r carries on as they are.
func warmup(r foretoken.Request) foretoken.Request {
	if carried := r.Fitted.AdaSD; carried != nil {
		r.Fitted.AdaSD = new(*carried)
	}
	return r
}

// score computes the target's loss on an output. Most methods produce the same output, which is scored once.
func (b *runner) score(ctx context.Context, cell *Cell, r *foretoken.Result) error {
	if b.matrix.NoScore || len(r.TokenIDs) == 0 {
		return nil
	}
	key := fmt.Sprint(r.PromptIDs, r.TokenIDs)
	known, ok := b.scores[key]
	if !ok {
		all := append(slices.Clone(r.PromptIDs), r.TokenIDs...)
		logs, err := b.s.Score(ctx, all)
		switch {
		case err != nil:
			return fmt.Errorf("scoring the output: %w", err)
		case len(logs) != len(all)-1:
			return fmt.Errorf("scoring the output: %d values for %d tokens", len(logs), len(all))
		}
		for _, l := range logs[len(r.PromptIDs)-1:] {
			known.loss -= float64(l)
			known.n++
		}
		b.scores[key] = known
	}
	cell.Loss, cell.LossTokens = known.loss, known.n
	return nil
}

// agreement compares an output with plain decoding's.
func agreement(out, plain []int32) (prefix, equal, length int) {
	same := true
	for i := range min(len(out), len(plain)) {
		if out[i] != plain[i] {
			same = false
			continue
		}
		equal++
		if same {
			prefix++
		}
	}
	return prefix, equal, max(len(out), len(plain))
}
