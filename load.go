package foretoken

import (
	"context"
	"errors"
	"fmt"

	"foretoken/internal/files"
	"foretoken/internal/pair"
	"foretoken/internal/warmup"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/llama"
	"foretoken/spec"
	"foretoken/webgpu"
)

// load loads the session's models onto its device. After a loss it overwrites the old models in place, so that
// pointers to them stay valid.
func (s *Session) load(ctx context.Context, tuning map[string]map[string]string) error {
	p := s.files
	if s.lean && !s.dev.Info().Host() {
		s.compileAhead(tuning)
	}
	target, err := llama.LoadTarget(ctx, s.dev, p.target, s.loading("target", tuning))
	if err != nil {
		return err
	}
	replace(&s.target, target)
	s.info.Target = s.target.Info()
	s.info.GPUByte = s.info.Target.GPUBytes
	if err := s.identify(&s.pair.Target, p.sources.target, &s.info.Target); err != nil {
		return err
	}
	if p.draft != nil {
		draft, err := llama.LoadDraft(ctx, s.dev, p.draft, s.loading("draft", tuning))
		if err != nil {
			return err
		}
		replace(&s.draft, draft)
		info := s.draft.Info()
		s.info.Draft = &info
		s.info.GPUByte += info.GPUBytes
		if err := s.identify(&s.pair.Draft, p.sources.draft, &info); err != nil {
			return err
		}
	}
	if err := s.loadHeads(ctx, p.head, s.loading("eagle3", tuning)); err != nil {
		return err
	}
	if s.dev.Info().Host() {
		if err := s.dev.Run(nil); err != nil { // its threads have started, or not
			return err
		}
		s.info.Device = s.dev.Info()
	}
	nodes := s.MaxNodes()
	if s.lean {
		nodes = firstNodes
	}
	if s.draft != nil || s.lean {
		if err := s.record(s.defaultConfig(nodes), 0, spec.AdjustmentKinds{}); err != nil {
			return err
		}
	}
	s.state, s.warmup = ready, warmup.New(warmup.Plan{})
	if s.lean {
		s.warmup = warmup.New(s.warmupPlan())
	}
	return nil
}

// loading returns the loading options of a model, by its stage of Progress.
func (s *Session) loading(stage string, tuning map[string]map[string]string) graph.Options {
	l := s.files.options(0)
	l.Tuning, l.Lean = tuning[stage], s.lean
	l.Progress = func(done, total int64) { s.progress(Progress{Stage: stage, Done: done, Total: total}) }
	l.Preparing = func(step string) { s.progress(Progress{Stage: "kernels", Note: stage + ": " + step}) }
	if stage == "target" {
		l.MaxRows, l.TopK = s.options.Nodes, s.options.Candidates
	}
	return l
}

func (s *Session) progress(p Progress) {
	if s.options.Progress != nil {
		s.options.Progress(p)
	}
}

// replace puts a model in the place of one whose device was lost, if there is one.
func replace[M any](old **M, by *M) {
	if *old == nil {
		*old = by
		return
	}
	**old = *by
}

// identify records the identity of a model's file, or refuses a file that changed since it was first loaded.
func (s *Session) identify(known *spec.ModelID, src files.Source, info *graph.Info) error {
	id, err := pair.Identify(src, info.Name, info.Quant, s.options.SHA256)
	if err != nil {
		return err
	}
	if *known != (spec.ModelID{}) && *known != id {
		return fmt.Errorf("foretoken: %s changed since it was loaded; open the models again", src.Name())
	}
	*known = id
	return nil
}

// loadingError gives an error of loading its kind.
func loadingError(err error) error {
	switch {
	case errors.Is(err, webgpu.ErrNoMemory):
		return ofKind(ErrMemory, err)
	case errors.Is(err, webgpu.ErrDeviceLost), errors.Is(err, webgpu.ErrTimeout):
		return err
	}
	return ofKind(ErrModel, err)
}

// loadHeads loads the draft's acceptance head and the target's EAGLE-3 head.
func (s *Session) loadHeads(ctx context.Context, file *gguf.File, loading graph.Options) error {
	if s.fitted.Head != nil && s.draft != nil {
		if err := s.fitted.Head.Matches(s.pair); err != nil {
			return err
		}
		if err := s.draft.SetHead(s.fitted.Head); err != nil {
			return err
		}
	}
	if file == nil {
		return nil
	}
	head, err := llama.LoadEAGLE3(ctx, s.dev, s.target, file, loading)
	if err != nil {
		return err
	}
	replace(&s.head, head)
	info := s.head.Info()
	s.info.EAGLE3 = &info
	before := s.info.Target.GPUBytes
	s.info.Target.GPUBytes = s.target.Info().GPUBytes // with the features it keeps for the head
	s.info.GPUByte += info.GPUBytes + s.info.Target.GPUBytes - before
	s.headPair.Target = s.pair.Target
	return s.identify(&s.headPair.Draft, s.options.EAGLE3, &info)
}
