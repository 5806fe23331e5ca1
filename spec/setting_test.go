package spec

import (
	"math"
	"strings"
	"testing"
)

func TestBounds(t *testing.T) {
	for _, s := range append(SamplingTable, Setting{Name: "gap", Most: math.MaxFloat64, Zero: "no cap"},
		Setting{Name: "alpha", Least: -8, Most: 8}) {
		if !s.Bounded() {
			continue
		}
		for _, v := range []float64{s.Least, s.Most, (s.Least + s.Most) / 2} {
			if err := s.Check(v); err != nil {
				t.Errorf("%s: %v is refused: %v", s.Name, v, err)
			}
		}
		for _, v := range []float64{s.Least - 1, math.Nextafter(s.Most, math.Inf(1)), math.NaN(), math.Inf(1),
			math.Inf(-1)} {
			if v == 0 && s.Zero != "" {
				continue
			}
			if err := s.Check(v); err == nil || !strings.Contains(err.Error(), s.Name+" is ") {
				t.Errorf("%s: %v: %v", s.Name, v, err)
			}
		}
		if (s.Check(0) == nil) != (s.Zero != "" || s.Least <= 0) {
			t.Errorf("%s: 0: %v", s.Name, s.Check(0))
		}
	}
	for want, s := range map[string]Setting{
		"0 (greedy) or 0.001 to 2": *Named(SamplingTable, "temperature"),
		"0 (off) to 1":             *Named(SamplingTable, "min_p"),
		"0 to 1":                   *Named(SamplingTable, "top_p"),
		"0 (no cap) or more":       {Most: math.MaxFloat64, Zero: "no cap"},
		"-8 to 8":                  {Least: -8, Most: 8},
	} {
		if got := s.Want(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestSettingsOfAStruct(t *testing.T) {
	table := []Setting{{Name: "depth", Least: 1, Most: 8}, {Name: "share", Most: 1},
		{Name: "mode", Choices: []string{"a", "bb"}}, {Name: "lists"}, {Name: "absent", Least: 1, Most: 2}}
	type part struct {
		Share *float64 `json:"share,omitempty"`
	}
	type settings struct {
		Depth int    `json:"depth"`
		Mode  string `json:"mode"`
		part
		Lists [][]int `json:"lists"`
		Other int     `json:"-"`
	}
	for want, s := range map[string]settings{
		"":                                 {Depth: 8},
		"spec: depth is 9, want 1 to 8":    {Depth: 9},
		"spec: share is 2, want 0 to 1":    {Depth: 1, part: part{new(2.0)}},
		`spec: mode is "b", want a or bb`:  {Depth: 1, Mode: "b"},
		"spec: depth is 0, want 1 to 8":    {Mode: "c"},
		"spec: share is -0.5, want 0 to 1": {Depth: 1, part: part{new(-0.5)}, Mode: "c"},
	} {
		got := ""
		if err := CheckSettings(table, &s); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
	shared := [][]int{{1}}
	s := settings{Lists: shared}
	err := Named(table, "lists").Decode([]byte("[[2],[3]]"), &s)
	if err != nil || len(s.Lists) != 2 || shared[0][0] != 1 {
		t.Errorf("%v, %v, shared %v", err, s.Lists, shared)
	}
	if err := Named(table, "depth").Decode([]byte(`"x"`), &s); err == nil || s.Depth != 0 {
		t.Errorf("a text as a number: %v, %d", err, s.Depth)
	}
	if Named(table, "absent").In(&s).IsValid() {
		t.Error("a setting has a field that its struct lacks")
	}
}
