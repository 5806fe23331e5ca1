//go:build !js

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken"
	"foretoken/spec"
	methods "foretoken/spec/method"
	"foretoken/webgpu"
)

// scripted is a Session whose outputs and times depend on the request alone.
type scripted struct {
	ran    []string       // policy, prompt and seed of every request
	scored int            // texts scored
	counts map[string]int // requests by policy and prompt, for times that change
	refuse string         // policy that Check refuses
	fail   string         // policy and prompt on which Generate fails
	long   string         // the prompt that does not fit
	// losses holds the requests, counted from 1, that lose the device; later requests count as first ones again.
	losses map[int]bool
	after  func(n int) // called after every request
}

func (s *scripted) Check(r foretoken.Request) error {
	if r.Policy == s.refuse {
		return errors.New("spec: not here")
	}
	return nil
}

// Generate returns three tokens: 10, 11, 12 for plain decoding, with another second token for mars. A chain takes
// two passes and half the time of plain decoding; the first request of each kind takes ten times as long.
func (s *scripted) Generate(ctx context.Context, prompt string, r foretoken.Request,
	emit func(*foretoken.Event) error) (*foretoken.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key := r.Policy + " " + prompt
	if key == s.fail {
		return nil, errors.New("spec: it broke")
	}
	if prompt == s.long {
		return nil, foretoken.ErrContextFull
	}
	s.ran = append(s.ran, fmt.Sprintf("%s %s %d", r.Policy, prompt, r.Seed))
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[r.Policy]++
	out := &foretoken.Result{Text: " out", PromptIDs: []int32{1, 2}, TokenIDs: []int32{10, 11, 12},
		Finish: spec.FinishLength}
	st := spec.Stats{Requests: 1, OutputTokens: 3, Rounds: 3, Calls: 3, Nodes: 3, Verify: 30 * time.Millisecond,
		Decode: 30 * time.Millisecond}
	switch r.Policy {
	case methods.DrafterChain:
		st.Calls, st.Rounds, st.Nodes, st.Draft, st.Verify, st.Decode = 2, 2, 7, 5*time.Millisecond,
			10*time.Millisecond, 15*time.Millisecond
	case methods.AdaptAdaSD:
		if r.Fitted.AdaSD != nil {
			r.Fitted.AdaSD.Rejections++
		}
	case methods.VerifierMARS:
		out.TokenIDs = []int32{10, 99, 12}
		out.Text = " oops"
		st.Calls, st.Rounds, st.Nodes, st.Relaxed, st.Decode = 1, 1, 8, 1, 10*time.Millisecond
	}
	if s.counts[r.Policy] == 1 {
		st.Decode *= 10
	}
	if s.losses[len(s.ran)] {
		st.Decode, st.Verify = 50*st.Decode, 50*st.Verify
		clear(s.counts) // the new device is cold
	}
	st.Emit = time.Millisecond // the benchmark's own
	st.Decode += st.Emit
	out.Stats = st
	if s.after != nil {
		s.after(len(s.ran))
	}
	return out, nil
}

func (s *scripted) Score(_ context.Context, tokens []int32) ([]float32, error) {
	s.scored++
	logs := make([]float32, len(tokens)-1)
	for i, t := range tokens[1:] {
		logs[i] = -float32(t) / 10 // the token after i
	}
	return logs, nil
}

func (s *scripted) Device() webgpu.Device { return nil }

func (s *scripted) Losses() int {
	n := 0
	for at := range s.losses {
		if at <= len(s.ran) {
			n++
		}
	}
	return n
}

func scriptedMatrix(t *testing.T, methods string) Matrix {
	t.Helper()
	ms, err := ParseMethods(methods, foretoken.Request{MaxTokens: 3, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	return Matrix{Methods: ms, Repeat: 2, Fingerprint: "here",
		Prompts: []Prompt{{"a-0", "a", "A"}, {"b-0", "b", "B"}},
		Judge: func(_, output string) Judgement {
			return Judgement{Judged: true, Parses: output == " out", Completed: true}
		}}
}

func runMatrix(t *testing.T, s Session, p Matrix) []Cell {
	t.Helper()
	var cells []Cell
	if err := Run(context.Background(), s, p, func(c Cell) { cells = append(cells, c) }); err != nil {
		t.Fatal(err)
	}
	return cells
}

func TestBenchMeasuresPlainBesideEveryMethod(t *testing.T) {
	s := &scripted{}
	cells := runMatrix(t, s, scriptedMatrix(t, "chain,mars"))
	if len(cells) != 3*2*2 {
		t.Fatalf("%d cells, want 3 methods on 2 prompts twice", len(cells))
	}
	// Each method warms up once; the order of the methods alternates.
	want := []string{
		"none A 5", "none A 5", "chain A 5", "chain A 5", "mars A 5", "mars A 5", "none A 5",
		"none B 5", "mars B 5", "chain B 5", "none B 5",
		"none A 5", "mars A 5", "chain A 5", "none A 5",
		"none B 5", "chain B 5", "mars B 5", "none B 5",
	}
	if !slices.Equal(s.ran, want) {
		t.Errorf("ran\n%s\nwant\n%s", strings.Join(s.ran, "\n"), strings.Join(want, "\n"))
	}
	if s.scored != 2 {
		t.Errorf("%d texts scored, want each of the two outputs once", s.scored)
	}
	for _, c := range cells {
		speed := map[string]float64{"plain": 1, "chain": 2, "mars": 3}[c.Method]
		if math.Abs(c.Speedup()-speed) > 1e-9 {
			t.Errorf("%s on %s: speedup %v, want %v: the first request or the benchmark's own time was counted",
				c.Method, c.Prompt, c.Speedup(), speed)
		}
		lossy := c.Method == "mars"
		equal, prefix, edits, loss := 3, 3, 0, 3.3
		if lossy {
			equal, prefix, edits, loss = 2, 1, 1, 12.1
		}
		if c.Lossy != lossy || c.Plain != (c.Method == "plain") || c.Equal != equal || c.Prefix != prefix ||
			c.Length != 3 || c.Edits != edits || c.Parses == lossy || !c.Judged || !c.Completed || c.TypeChecks {
			t.Errorf("%+v", c)
		}
		if math.Abs(c.Loss-loss) > 1e-4 || c.LossTokens != 3 {
			t.Errorf("%s: loss %v over %d tokens, want %v over 3", c.Method, c.Loss, c.LossTokens, loss)
		}
	}
}

func TestBenchGivesEveryRepetitionASeedAboveZero(t *testing.T) {
	s := &scripted{}
	runMatrix(t, s, scriptedMatrix(t, "chain:temperature=1"))
	if !slices.Contains(s.ran, "chain A 6") || !slices.Contains(s.ran, "none B 6") ||
		slices.Contains(s.ran, "chain A 7") {
		t.Errorf("ran %v, want seeds 5 and 6", s.ran)
	}
}

func TestBenchSharesPlainInBlocks(t *testing.T) {
	s := &scripted{}
	p := scriptedMatrix(t, "chain,chain:depth=2,chain:depth=3,none:temperature=1,chain:temperature=1")
	p.Block, p.Repeat, p.Prompts = 2, 1, p.Prompts[:1]
	cells := runMatrix(t, s, p)
	var names []string
	for _, c := range cells {
		names = append(names, c.Method)
	}
	if want := []string{"plain", "chain", "chain:depth=2", "chain:depth=3", "none:temperature=1",
		"chain:temperature=1"}; !slices.Equal(names, want) {
		t.Errorf("cells %q, want %q: plain decoding once for each sampling", names, want)
	}
	plain := 0
	for _, r := range s.ran {
		if strings.HasPrefix(r, "none") {
			plain++
		}
	}
	if plain != 9 {
		t.Errorf("plain decoding ran %d times, want before and after and a first time for each of three blocks", plain)
	}
}

func TestBenchGoesOnWhereItWasInterrupted(t *testing.T) {
	matrix := scriptedMatrix(t, "ngram,chain,mars")
	whole := Summarise(runMatrix(t, &scripted{}, matrix))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	kept := map[string]Cell{}
	s := &scripted{after: func(n int) {
		if n == 16 { // in the middle of the third block
			stop()
		}
	}}
	err := Run(ctx, s, matrix, func(c Cell) { kept[c.Key] = c })
	if !errors.Is(err, context.Canceled) || len(kept) != 8 {
		t.Fatalf("%v with %d cells, want an interruption after two blocks of four", err, len(kept))
	}
	matrix.Finished = func(key string) (Cell, bool) {
		c, ok := kept[key]
		return c, ok
	}
	again, resumed := &scripted{}, 0
	var cells []Cell
	if err := Run(context.Background(), again, matrix, func(c Cell) {
		cells = append(cells, c)
		if c.Resumed {
			resumed++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if resumed != 8 || len(again.ran) != 2*5+4 {
		t.Errorf("%d cells taken over and %d requests, want 8, and two blocks with a first time for each method",
			resumed, len(again.ran))
	}
	if got := Summarise(cells); !reflect.DeepEqual(got, whole) {
		t.Errorf("in two parts:\n%+v\nat once:\n%+v", got, whole)
	}
	// With one cell of a block missing, Run measures that cell and does not count its base twice.
	for _, c := range cells {
		kept[c.Key] = c
	}
	for key, c := range kept {
		if c.Method == "chain" && c.Prompt == "b-0" && c.Rep == 1 {
			delete(kept, key)
		}
	}
	one := &scripted{}
	if got := Summarise(runMatrix(t, one, matrix)); !reflect.DeepEqual(got, whole) || len(one.ran) != 5 {
		t.Errorf("with one cell missing %d requests give\n%+v\nwant 5 and\n%+v", len(one.ran), got, whole)
	}
	// Cells of other models, settings or prompt texts have other keys.
	matrix.Fingerprint = "elsewhere"
	other := runMatrix(t, &scripted{}, matrix)
	for _, c := range other {
		if c.Resumed {
			t.Fatalf("%s of another device was taken over", c.Method)
		}
	}
}

// TestBenchCarriesThresholdsByRow has two rows that carry AdaSD's thresholds on: each counts its own measured prompts,
// also after an interrupt.
func TestBenchCarriesThresholdsByRow(t *testing.T) {
	matrix := scriptedMatrix(t, "adasd:carry=true,adasd:carry=true,variant=A,adasd")
	matrix.Repeat = 1
	all := runMatrix(t, &scripted{}, matrix)
	finished := map[string]Cell{}
	for _, c := range all {
		want := map[string]int{"a": 1, "b": 2}[c.Category]
		if carries := strings.Contains(c.Method, "carry"); carries != (c.Carried != nil) ||
			carries && c.Carried.Rejections != want {
			t.Errorf("%s on %s carries %+v, want %d", c.Method, c.Prompt, c.Carried, want)
		}
		if c.Prompt == "a-0" {
			finished[c.Key] = c
		}
	}
	resumed := scriptedMatrix(t, "adasd:carry=true,adasd:carry=true,variant=A,adasd")
	resumed.Repeat = 1
	resumed.Finished = func(key string) (Cell, bool) { c, ok := finished[key]; return c, ok }
	for _, c := range runMatrix(t, &scripted{}, resumed) {
		if c.Carried != nil && c.Prompt == "b-0" && c.Carried.Rejections != 2 {
			t.Errorf("%s carries %+v after an interrupt", c.Method, c.Carried)
		}
	}
}

func TestBenchTellsOfMethodsThatCannotRun(t *testing.T) {
	matrix := scriptedMatrix(t, "chain,ngram")
	emit := func(Cell) {}
	if err := Run(context.Background(), &scripted{refuse: "ngram"}, matrix, emit); err == nil ||
		!strings.Contains(err.Error(), "ngram") {
		t.Errorf("no error names the method: %v", err)
	}
	if err := Run(context.Background(), &scripted{fail: "ngram B"}, matrix, emit); err == nil ||
		!strings.Contains(err.Error(), "b-0") {
		t.Errorf("no error names the prompt: %v", err)
	}
	var told []string
	matrix.Problem = func(method, prompt string, err error) error {
		told = append(told, method+" "+prompt+" "+err.Error())
		return nil
	}
	matrix.Methods = append(matrix.Methods,
		Method{Name: "absent", Missing: "needs a file", Request: matrix.Methods[0].Request})
	cells := runMatrix(t, &scripted{fail: "ngram B"}, matrix)
	if len(told) != 2 || !strings.HasPrefix(told[0], "absent  needs a file") ||
		!strings.HasPrefix(told[1], "ngram b-0") {
		t.Errorf("told %q", told)
	}
	for _, c := range cells {
		if c.Method == "absent" || c.Method == "ngram" && (c.Prompt != "a-0" || c.Rep != 0) {
			t.Errorf("a cell of %s on %s, repetition %d", c.Method, c.Prompt, c.Rep)
		}
	}
	if len(cells) != 4+4+1 {
		t.Errorf("%d cells, want plain and chain whole and one of ngram", len(cells))
	}
}

func TestBenchSkipsPromptsThatDoNotFit(t *testing.T) {
	matrix := scriptedMatrix(t, "none,chain,ngram")
	matrix.Block = 1 // plain decoding twice for each prompt
	if err := Run(context.Background(), &scripted{long: "A"}, matrix, func(Cell) {}); !errors.Is(err,
		foretoken.ErrContextFull) {
		t.Errorf("without Problem: %v", err)
	}
	var missing []Missing
	matrix.Problem = func(method, prompt string, err error) error {
		missing = append(missing, Missing{method, prompt, err.Error()})
		return nil
	}
	cells := runMatrix(t, &scripted{long: "A"}, matrix)
	if want := []Missing{{"", "a-0", foretoken.ErrContextFull.Error()}}; !slices.Equal(missing, want) {
		t.Errorf("told %q, want %q", missing, want)
	}
	for _, c := range cells {
		if c.Prompt != "b-0" || c.Speedup() == 0 {
			t.Errorf("a cell of %s on %s, %g times as fast", c.Method, c.Prompt, c.Speedup())
		}
	}
	if len(cells) != 3*2 || Skipped(missing) != 1 {
		t.Errorf("%d cells, want all of the other prompt; %d skipped", len(cells), Skipped(missing))
	}
	matrix.Prompts = matrix.Prompts[:1]
	if err := Run(context.Background(), &scripted{long: "A"}, matrix, func(Cell) {}); err == nil ||
		!strings.Contains(err.Error(), "context") {
		t.Errorf("with no prompt that fits: %v", err)
	}
}

func TestBenchWithoutScores(t *testing.T) {
	matrix := scriptedMatrix(t, "chain")
	matrix.NoScore = true
	for _, c := range runMatrix(t, &scripted{}, matrix) {
		if c.LossTokens != 0 || c.Key == "" {
			t.Errorf("%+v", c)
		}
	}
}

func TestBenchMethodsAreParsed(t *testing.T) {
	ms, err := ParseMethods(
		"none,eagle2:depth=3,top-k=2,nodes=7,coupled=false,static:shape=[[2],[1,1]],name=two,"+
			"mars:theta=0.85,temperature=1,seed=9",
		foretoken.Request{MaxTokens: 5, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) != 4 {
		t.Fatalf("%d methods", len(ms))
	}
	e, s, m := ms[1], ms[2], ms[3]
	if e.Name != "eagle2:depth=3,top-k=2,nodes=7,coupled=false" || e.Request.Depth != 3 || e.Request.TopK != 2 ||
		e.Request.Nodes != 7 ||
		e.Request.Coupled == nil || *e.Request.Coupled || e.Request.MaxTokens != 5 || e.Lossy() {
		t.Errorf("%+v", e)
	}
	if s.Name != "two" || !reflect.DeepEqual(s.Request.Shape, [][]int{{2}, {1, 1}}) {
		t.Errorf("%+v", s)
	}
	if m.Request.Theta != 0.85 || m.Request.Temperature != 1 || m.Request.Seed != 9 || !m.Lossy() {
		t.Errorf("%+v", m)
	}
	for _, bad := range []struct{ list, want string }{
		{"", "empty part"},
		{"chain,,ngram", "empty part"},
		{"magic", "unknown method \"magic\", want one of none"},
		{"depth=3,chain", "before any method"},
		{"chain:depth", "want key=value"},
		{"chain:depth=", "want key=value"},
		{"chain:depth=deep", "want a whole number"},
		{"chain:depth=2.5", "want a whole number"},
		{"chain:coupled=maybe", "want true or false"},
		{"chain:depth=null", "want a whole number"},
		{"chain:coupled=null", "want true or false"},
		{"static:shape=4", "want JSON"},
		{"chain:colour=red", "no setting \"colour\", want one of name, against, adapt"},
		{"chain:depth=0,depth=100", "depth is 100"},
		{"chain:temperature=-1", "temperature is -1"},
		{"chain:max-tokens=-1", "max_tokens is -1"},
		{"eagle2:verifier=rejection", "top-k"},
		{"chain,chain", "two methods are called"},
	} {
		if _, err := ParseMethods(bad.list, foretoken.Request{}); err == nil ||
			!strings.Contains(err.Error(), bad.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", bad.list, err, bad.want)
		}
	}
	if c := CategoryOf("comment-03"); c != "comment" || CategoryOf("x") != "x" {
		t.Errorf("category %q", c)
	}
}
