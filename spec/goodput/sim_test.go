package goodput

import (
	"context"
	"math"
	"time"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// world simulates a language and a machine: the next token of each prefix, the guesses of a draft, and the times of
// passes on a simulated clock.
type world struct {
	seed  uint64
	vocab int
	// period sets how much of the text repeats: except at multiples of it, the last two tokens determine the next.
	// 0: the text does not repeat.
	period int
	// skill is the mean probability that the draft's first choice is right, by the length of the sequence; prefixes
	// differ. boast in [0, 1] is how far the draft's probabilities overestimate that.
	skill func(length int) float64
	boast float64
	times times
	noise float64 // standard deviation of the ln of each time
	// head, unless nil, says how good and how fast a second draft is, by the fields that speak of drafts.
	head *world
	// busy is the factor that other processes put on all times at a moment; nil: 1.
	busy func(now time.Duration) float64
	// text, unless nil, is recorded: the target's tokens and the draft's guesses, in place of seed, skill and boast.
	text *recording

	now   time.Duration
	calls uint64
	// work is the time of all passes without noise and without other processes, in milliseconds.
	work float64
	// before is the number of tokens of earlier texts, which drifts continue from.
	before int

	apart bool // the target cannot verify in the run that drafts
	joint int  // runs that drafted and verified
}

// times are the times of passes: row in milliseconds, the others in multiples of row.
type times struct {
	row      float64                // a target pass over one row
	verify   func(rows int) float64 // a target pass
	root     float64                // the draft's first pass
	level    float64                // each further pass with one beam
	beam     float64                // each further beam of such a pass
	sync     float64                // another submit
	feed     float64                // prefill of a token; each 64 take a root more
	drifting float64                // growth of all times over 1000 tokens, as a share
	slowing  float64                // further growth of the draft's times over 1000 tokens, as a share
}

// pass is the time of a level of so many beams.
func (t *times) pass(beams int) float64 { return t.level + float64(beams-1)*t.beam }

func (w *world) clock() time.Time { return time.Unix(0, 0).Add(w.now) }

// spend moves the clock by x passes over a row, with noise.
func (w *world) spend(x float64, length int) {
	w.calls++
	x *= w.times.row * (1 + w.times.drifting*float64(w.before+length)/1000)
	w.work += x
	u, v := spectest.Unit(spectest.Mix(w.seed^w.calls*2)), spectest.Unit(spectest.Mix(w.seed^(w.calls*2+1)))
	x *= math.Exp(w.noise * math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v))
	if w.busy != nil {
		x *= w.busy(w.now)
	}
	w.now += time.Duration(x * float64(time.Millisecond))
}

// spot is the end of a sequence: its hash and its last two tokens.
type spot struct {
	spectest.Prefix
	last [2]int32
}

func at(tokens []int32) spot {
	p := spot{Prefix: spectest.PrefixOf(tokens), last: [2]int32{-1, -1}}
	if n := len(tokens); n >= 2 {
		p.last = [2]int32{tokens[n-2], tokens[n-1]}
	}
	return p
}

func (p spot) then(token int32) spot {
	return spot{p.Prefix.Then(token), [2]int32{p.last[1], token}}
}

// next returns the target's token: the recorded one, a hash of the prefix, or of the last two tokens in a text that
// repeats.
func (w *world) next(p spot) int32 {
	if w.text != nil && w.text.follows(p) {
		return w.text.Tokens[p.Len-len(w.text.Prompt)]
	}
	h := p.Hash
	if w.period > 0 && p.Len%w.period != 0 {
		h = uint64(p.last[0])<<32 ^ uint64(uint32(p.last[1]))
	}
	return int32(spectest.Mix(h^w.seed) % uint64(w.vocab))
}

// guesses returns the draft's k best tokens and their ln q. Prefixes are easy or hard: each has its own probability
// that the right token comes first, and lower ones for each later rank.
func (w *world) guesses(p spot, k int) (tokens []int32, logQ []float32) {
	right := w.next(p)
	if w.text != nil {
		return w.text.guesses(p, k)
	}
	skill := w.skill(p.Len)
	u := spectest.Unit(spectest.Mix(p.Hash ^ w.seed*3))
	// Probabilities spread between 0 and 1 around the mean, as in a beta distribution.
	chance := math.Pow(u, (1-skill)/max(skill, 1e-3))
	q := min(0.98, chance+(1-chance)*w.boast)
	rank := 0
	for draw := spectest.Unit(spectest.Mix(p.Hash ^ w.seed*5)); rank < k && draw > chance; rank++ {
		draw = spectest.Unit(spectest.Mix(p.Hash ^ w.seed*5 ^ uint64(rank+1)*977))
		chance = 0.4 * skill
	}
	left := 1 - q
	for i := range k {
		token := right
		if i != rank {
			token = int32(spectest.Mix(p.Hash^uint64(i+11)*0x9E37) % uint64(w.vocab))
			for token == right || contain(tokens, token) {
				token = (token + 1) % int32(w.vocab)
			}
		}
		tokens = append(tokens, token)
		logQ = append(logQ, float32(math.Log(q)))
		q = left * 0.5
		left -= q
	}
	return tokens, logQ
}

func contain(tokens []int32, token int32) bool {
	for _, t := range tokens {
		if t == token {
			return true
		}
	}
	return false
}

// text is the length of a sequence and its end.
type text struct {
	n   int
	end spot
}

func (t *text) Reset()   { *t = text{end: at(nil)} }
func (t *text) Len() int { return t.n }
func (t *text) ReusePrefix([]int32) int {
	t.Reset()
	return 0
}
func (t *text) add(tokens ...int32) {
	for _, token := range tokens {
		t.end = t.end.then(token)
		t.n++
	}
}

type worldTarget struct {
	spectest.PartialTarget
	*world
	text
	tree *spec.Tree
}

func (t *worldTarget) Limits() spec.Limits {
	return spec.Limits{Context: 1 << 20, MaxRows: 64, Vocab: t.vocab, TopK: 8}
}
func (t *worldTarget) Prefill(_ context.Context, tokens []int32) error {
	t.add(tokens...)
	return nil
}

func (t *worldTarget) Verify(_ context.Context, r spec.PassRequest) (*spec.Pass, error) {
	tree := r.Tree
	t.tree = tree.Clone()
	out, places := make([]spec.NodeOutput, tree.Len()), make([]spot, tree.Len())
	for i, token := range tree.Tokens {
		if i == 0 {
			places[0] = t.end.then(token)
		} else {
			places[i] = places[tree.Parents[i]].then(token)
		}
		out[i].Token = t.next(places[i])
	}
	t.spend(t.times.verify(buckets[stair(tree.Len())]), t.n)
	return &spec.Pass{Outputs: out}, nil
}

func (t *worldTarget) Commit(path []int32) error {
	for _, n := range path {
		t.add(t.tree.Tokens[n])
	}
	return nil
}

// jointTarget is a worldTarget that runs with the draft, which saves another submit.
type jointTarget struct{ *worldTarget }

func (t jointTarget) Limits() spec.Limits {
	lim := t.worldTarget.Limits()
	lim.Joint = true
	return lim
}

func (t jointTarget) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	if r.Tree != nil {
		return t.worldTarget.Verify(ctx, r)
	}
	d := r.Model.(*worldDraft)
	d.saved = d.as.times.sync
	levels, err := d.Draft(ctx, *r.Draft)
	d.saved = 0
	if err != nil {
		return nil, err
	}
	if r.Tree, err = r.Builder.BuildFor(r.Draft, levels); err != nil {
		return nil, err
	}
	t.joint++
	pass, err := t.worldTarget.Verify(ctx, r)
	pass.Tree, pass.Levels = r.Tree, levels
	return pass, err
}

type worldDraft struct {
	spectest.PartialDraft
	*world
	as *world // how good and how fast it is
	text
	k      int
	levels []spec.Level
	beams  []spot
	scores []float32
	saved  float64 // of the time of the next Draft
}

var (
	_ spec.DraftModel = (*worldDraft)(nil)
	_ spec.Target     = jointTarget{}
)

// pay moves the clock by x passes of the target over a row, in which the draft works.
func (d *worldDraft) pay(x float64) {
	d.spend(x*(1+d.as.times.slowing*float64(d.before+d.n)/1000), d.n)
}

func (d *worldDraft) Limits() spec.Limits {
	return spec.Limits{Context: 1 << 20, MaxRows: 64, Vocab: d.vocab, TopK: 16}
}
func (d *worldDraft) Prefill(_ context.Context, tokens []int32) error {
	d.add(tokens...)
	d.pay(d.as.times.root*math.Ceil(float64(len(tokens))/64) + d.as.times.feed*float64(len(tokens)))
	return nil
}

func (d *worldDraft) Draft(_ context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	d.add(r.Pending...)
	d.k, d.levels = r.K, nil
	d.beams, d.scores = []spot{d.end}, []float32{0}
	d.propose()
	for range r.Depth {
		d.expand(d.best())
	}
	d.pay(d.as.times.root + float64(r.Depth)*d.as.times.pass(r.K) - d.saved)
	return d.levels, nil
}

func (d *worldDraft) Extend(_ context.Context, e spec.Extension) ([]spec.Level, error) {
	for range e.Passes {
		d.expand(d.best())
	}
	d.pay(d.as.times.sync + float64(e.Passes)*d.as.times.pass(d.k))
	return d.levels, nil
}

func (d *worldDraft) best() []int32 {
	var values []float64
	for _, c := range d.levels[len(d.levels)-1].Candidates {
		values = append(values, float64(d.scores[c.Beam]+c.LogQ))
	}
	return spectest.BestOf(values, d.k)
}

func (d *worldDraft) expand(beams []int32) {
	l := &d.levels[len(d.levels)-1]
	l.Beams = append([]int32(nil), beams...)
	var next []spot
	var scores []float32
	for _, b := range beams {
		c := l.Candidates[b]
		next, scores = append(next, d.beams[c.Beam].then(c.Token)), append(scores, d.scores[c.Beam]+c.LogQ)
	}
	d.beams, d.scores = next, scores
	d.propose()
}

func (d *worldDraft) propose() {
	var l spec.Level
	for b, p := range d.beams {
		tokens, logQ := d.as.guesses(p, d.k)
		for i := range tokens {
			l.Candidates = append(l.Candidates, spec.Candidate{Token: tokens[i], LogQ: logQ[i], Beam: int32(b)})
		}
	}
	d.levels = append(d.levels, l)
}

func (d *worldDraft) Commit(beams []int32) error {
	for i, b := range beams {
		d.add(d.levels[i].Candidates[d.levels[i].Beams[b]].Token)
	}
	return nil
}

// drafts says what each draft is like.
func (w *world) drafts() []*world {
	if w.head == nil {
		return []*world{w}
	}
	return []*world{w, w.head}
}

// models returns the drafts.
func (w *world) models() (all Models) {
	for i, as := range w.drafts() {
		all[i] = &worldDraft{world: w, as: as}
	}
	return all
}

// measure runs Costs.Measure in the world without noise.
func (w *world) measure(costs *Costs) {
	quiet := *w
	quiet.noise = 0
	elapsed := func(x float64) error {
		quiet.spend(x, 0)
		return nil
	}
	probe := Probe{
		Verify: func(rows int) error { return elapsed(quiet.times.verify(rows)) },
		Clock:  func() float64 { return quiet.now.Seconds() },
	}
	for _, as := range w.drafts() {
		t := as.times
		probe.Drafts = append(probe.Drafts, DraftProbe{
			Widths:  []int{1, 2, 4},
			Draft:   func(levels, beams int) error { return elapsed(t.root + float64(levels-1)*t.pass(beams)) },
			Grow:    func() error { return elapsed(t.sync + t.pass(1)) },
			Prefill: func(tokens int) error { return elapsed(t.root + t.feed*float64(tokens)) },
		})
	}
	if err := costs.Measure(probe, 16, 1e9); err != nil {
		panic(err)
	}
	if costs.Verify.At(4) <= 0 {
		panic("nothing was measured")
	}
	for i, as := range w.drafts() { // the files predict it
		costs.opening.chains[i] = costs.chain(i, as.times.level)
	}
}

// generator decodes in the world with the parts that a method makes of its draft.
func (w *world) generator(parts func(*worldDraft) spec.Parts) *spec.Generator {
	p := parts(&worldDraft{world: w, as: w})
	p.Verifier, p.Clock = spec.Match{}, w.clock
	var target spec.Target = jointTarget{&worldTarget{world: w}}
	if w.apart {
		target = &worldTarget{world: w}
	}
	g, err := spec.New(target, p)
	if err != nil {
		panic(err)
	}
	return g
}

// run decodes requests and returns the tokens per second of decoding, the draft's prefill included.
func (w *world) run(parts func(*worldDraft) spec.Parts, requests, tokens int) float64 {
	var all time.Duration
	g := w.generator(parts)
	for r := range requests {
		prompt := make([]int32, 60)
		for i := range prompt {
			prompt[i] = int32(spectest.Mix(uint64(r*1000+i)) % uint64(w.vocab))
		}
		if w.period > 0 { // the prompt repeats too
			p := at(prompt[:8])
			for i := 8; i < len(prompt); i++ {
				prompt[i] = w.next(p)
				p = p.then(prompt[i])
			}
		}
		begin := w.now
		if _, err := g.Generate(context.Background(), prompt, spec.Options{MaxTokens: tokens}, nil); err != nil {
			panic(err)
		}
		all += w.now - begin // the target's prefill takes no time in a world
	}
	return float64(requests*tokens) / all.Seconds()
}
