package spec

import (
	"math"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	for _, l := range RequestLimits() {
		for _, v := range []float64{l.Least, l.Most, (l.Least + l.Most) / 2} {
			if err := l.Check(v); err != nil {
				t.Errorf("%s: %v is refused: %v", l.Field, v, err)
			}
		}
		for _, v := range []float64{l.Least - 1, l.Most + 1, math.NaN(), math.Inf(1), math.Inf(-1)} {
			if v == 0 && l.Zero != "" {
				continue
			}
			if err := l.Check(v); err == nil || !strings.Contains(err.Error(), l.Field+" is ") {
				t.Errorf("%s: %v: %v", l.Field, v, err)
			}
		}
		if (l.Check(0) == nil) != (l.Zero != "" || l.Least <= 0) {
			t.Errorf("%s: 0: %v", l.Field, l.Check(0))
		}
	}
	if got, want := LimitTemperature.Check(99).Error(), "spec: temperature is 99, want 0 (greedy) or 0.001 to 2"; got !=
		want {
		t.Errorf("%s, want %s", got, want)
	}
}
