package foretoken

import (
	"context"
	"errors"

	"foretoken/internal/warmup"
	"foretoken/models/graph"
	"foretoken/models/llama"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// firstNodes is the largest tree, in nodes, that a lean session verifies as soon as it is open: larger ones need the
// kernels that take the longest to compile. Until those are compiled auto drafts small trees; other methods with a
// draft wait.
const firstNodes = 8

// limitTrees limits the trees of a method that weighs costs.
func limitTrees(c *method.Config, nodes int) {
	if c.WeighsCosts() && c.Nodes > nodes {
		c.Nodes, c.Depth = nodes, min(c.Depth, nodes-1)
	}
}

// defaultConfig is the method of a default request with trees of up to so many nodes that the session can verify.
func (s *Session) defaultConfig(nodes int) method.Config {
	c := method.ByName(DefaultRequest().Policy)
	limitTrees(&c, min(nodes, s.MaxNodes()))
	return c
}

// shadow returns a session on a dry run and the function that loads its models as the session's are loaded.
func (s *Session) shadow(tuning map[string]map[string]string) (*Session, *graph.DryRun, func() error) {
	dry := graph.NewDryRun(s.dev.Info())
	shadow := &Session{dev: dry, files: s.files, lean: s.lean}
	shadow.options.Nodes, shadow.options.Candidates = s.options.Nodes, s.options.Candidates
	return shadow, dry, func() (err error) {
		ctx := context.Background() // a dry run reads no weights
		shadow.target, err = llama.LoadTarget(ctx, dry, s.files.target, shadow.loading("target", tuning))
		if err != nil || s.files.draft == nil {
			return err
		}
		shadow.draft, err = llama.LoadDraft(ctx, dry, s.files.draft, shadow.loading("draft", tuning))
		return err
	}
}

// compileAhead starts compiling the kernels of the first request before weights are loaded.
func (s *Session) compileAhead(tuning map[string]map[string]string) {
	shadow, dry, load := s.shadow(tuning)
	if load() != nil { // loading reports the error
		return
	}
	if shadow.record(shadow.defaultConfig(firstNodes), 0, spec.AdjustmentKinds{}) == nil {
		webgpu.Compile(s.dev, dry.Sources())
	}
}

// warmupPlan returns what a session with lean models has yet to prepare for a default request.
func (s *Session) warmupPlan() warmup.Plan {
	plan := warmup.Plan{Record: s.warmupSteps(s.draft != nil)}
	if s.dev.Info().Host() { // has nothing to compile
		return plan
	}
	shadow, dry, load := s.shadow(s.choices())
	plan.List = append([]func() error{load}, shadow.warmupSteps(s.draft != nil)...)
	plan.Sources = dry.Sources
	plan.Compile = func(sources []*webgpu.KernelSource) <-chan struct{} { return webgpu.Compile(s.dev, sources) }
	return plan
}

// warmupSteps prepares the programs that a lean load left out and that a default request needs.
func (s *Session) warmupSteps(drafts bool) []func() error {
	nodes := method.ByName(DefaultRequest().Policy).Nodes
	var steps []func() error
	for rows := 1; rows < 2*nodes; rows *= 2 {
		steps = append(steps, func() error { return s.target.Warm(min(rows, nodes, s.MaxNodes())) })
	}
	if drafts {
		steps = append(steps, func() error { return s.draft.Warm() })
	}
	return append(steps, func() error { return s.record(s.defaultConfig(nodes), 0, spec.AdjustmentKinds{}) })
}

// warmUpIdle prepares the rest and times the passes that auto decides by, while the session serves no request. It ends
// when the models were loaded again, which begins another warmup.
func (s *Session) warmUpIdle() {
	if !s.options.Lean {
		return
	}
	w := s.warmup
	errReplaced := errors.New("foretoken: the models were loaded again")
	go w.Background(&s.turn, func() error {
		if w != s.warmup {
			return errReplaced
		}
		return s.usable()
	}, func(idle context.Context) error {
		if s.costs.Timed() {
			return nil
		}
		c := s.defaultConfig(s.MaxNodes())
		_, err := s.ensureCosts(idle, c, s.target.Len() > 0)
		return err
	})
}

// warmUp completes warmup. The caller has the session's turn.
func (s *Session) warmUp(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	return s.warmup.Finish(ctx)
}

// warmUpFor completes warmup for a request that waits for it.
func (s *Session) warmUpFor(ctx context.Context, c method.Config) error {
	if !c.UsesDraftModel() && !c.WeighsCosts() || s.startsLean(c) {
		return nil
	}
	return s.warmUp(ctx)
}

// Warm waits until all kernels of a lean session are compiled. Call it before measuring.
func (s *Session) Warm(ctx context.Context) error {
	return s.Exclusive(ctx, func(Models) error { return nil })
}

// startsLean reports whether a request begins before warmup has ended and before passes are timed. Only methods whose
// text does not depend on the trees may.
func (s *Session) startsLean(c method.Config) bool {
	return s.options.Lean && c.WeighsCosts() && c.Exactness() == method.ExactTokens
}
