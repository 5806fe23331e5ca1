package constrain

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
)

// TestAnswersAreChecked refuses answers of a LogitsProcessor that cannot be added, and passes its own errors on.
func TestAnswersAreChecked(t *testing.T) {
	var tree spec.Tree
	tree.Reset(5)
	own := errors.New("the program's own")
	for want, answer := range map[string]LogitsProcessor{
		"the program's own": func([][]int32) ([][]spec.Bias, error) { return nil, own },
		"0 answers to 1":    func([][]int32) ([][]spec.Bias, error) { return nil, nil },
		"101 for token 3, want -100 to 100": func([][]int32) ([][]spec.Bias, error) {
			return [][]spec.Bias{{{Token: 3, Add: 101}}}, nil
		},
		"token -1, want 0 to 1999": func([][]int32) ([][]spec.Bias, error) {
			return [][]spec.Bias{{{Token: -1}}}, nil
		},
		"1025 tokens after one text, want at most 1024": func([][]int32) ([][]spec.Bias, error) {
			all := make([]spec.Bias, 1025)
			for i := range all {
				all[i].Token = int32(i)
			}
			return [][]spec.Bias{all}, nil
		},
	} {
		g, err := New(t.Context(), Constraints{LogitsProcessor: answer}, NewVocab(nil, 2000))
		if err != nil {
			t.Fatal(err)
		}
		err = g.Adjust(&tree, &spec.Adjustment{Nodes: 1})
		refusal := (*Error)(nil)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, own) == errors.As(err, &refusal) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestBiasesOfPaths counts the tokens of the text and of the way to each node of a tree.
func TestBiasesOfPaths(t *testing.T) {
	answers := func(texts [][]int32) (all [][]spec.Bias, err error) {
		for _, text := range texts {
			all = append(all, []spec.Bias{{Token: int32(len(text)), Add: 4}})
		}
		return all, nil
	}
	g, err := New(t.Context(), Constraints{FrequencyPenalty: 0.5, PresencePenalty: 0.25,
		LogitBias: map[int32]float32{7: 3, 9: -100}, LogitsProcessor: answers}, NewVocab(nil, 20))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Take([]int32{7, 3}); err != nil {
		t.Fatal(err)
	}
	tree := spec.Tree{Tokens: []int32{3, 7, 4, 9}, Parents: []int32{-1, 0, 1, 1}, Depths: []int32{0, 1, 2, 2},
		Scores: make([]float32, 4)}
	var a spec.Adjustment
	if err := g.Adjust(&tree, &a); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(a.Common, func(x, y spec.Bias) int { return int(x.Token - y.Token) })
	want := spec.Adjustment{
		Common: []spec.Bias{{Token: 3, Add: -0.75}, {Token: 7, Add: 2.25}, {Token: 9, Add: ruledOut}},
		Own: [][]spec.Bias{
			{{Token: 2, Add: 4}},
			{{Token: 7, Add: 1.75}, {Token: 3, Add: 3.25}}, // three tokens: 4 for token 3, which the text has once
			{{Token: 4, Add: 3.25}, {Token: 7, Add: 1.75}}, // four tokens
			{{Token: 9, Add: ruledOut}, {Token: 7, Add: 1.75}, {Token: 4, Add: 4}},
		},
	}
	if !reflect.DeepEqual(a.Common, want.Common) || !reflect.DeepEqual(a.Own, want.Own) {
		t.Errorf("%+v, want %+v", a, want)
	}
	if g, err := New(t.Context(), Constraints{}, NewVocab(nil, 20)); g != nil || err != nil {
		t.Errorf("without constraints: %+v, %v", g, err)
	}
}
