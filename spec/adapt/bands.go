package adapt

import (
	"fmt"
	"slices"
)

// bands are the greatest temperatures of the bands that share a fit. A fit belongs to the band of its own temperature.
var bands = [...]float64{0, 0.5, 1, 2}

// bandOf returns the index of a temperature's band, len(bands) above all of them.
func bandOf(temperature float64) int {
	i, _ := slices.BinarySearch(bands[:], temperature)
	return i
}

// bandName describes a band for people.
func bandName(i int) string {
	switch i {
	case 0:
		return "0"
	case len(bands):
		return fmt.Sprintf("above %g", bands[i-1])
	}
	return fmt.Sprintf("above %g to %g", bands[i-1], bands[i])
}
