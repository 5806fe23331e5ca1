package timing

import (
	"errors"
	"math"
	"testing"
	"time"
)

// TestDispatchUnderACoarseClock measures by a late clock with steps of 100 µs.
func TestDispatchUnderACoarseClock(t *testing.T) {
	const idle = 300 * time.Microsecond
	for _, want := range []time.Duration{0, 700 * time.Nanosecond, 40 * time.Microsecond, 3 * time.Millisecond,
		90 * time.Millisecond} {
		runs := 0
		got, times, err := Dispatch(Coarse, idle, func(times int) (time.Duration, error) {
			runs++
			late := time.Duration(runs%3) * 100 * time.Microsecond // what else the machine does
			return (idle + late + want*time.Duration(times)).Truncate(100 * time.Microsecond), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(float64(got - want)); off > 0.03*float64(want)+float64(30*time.Nanosecond) {
			t.Errorf("%v: found %v by %d repetitions", want, got, times)
		}
		if runs > 12 {
			t.Errorf("%v: took %d runs", want, runs)
		}
	}
	lost := errors.New("lost")
	if _, _, err := Dispatch(Coarse, 0, func(int) (time.Duration, error) { return 0, lost }); err != lost {
		t.Errorf("the error is %v", err)
	}
}
