//go:build !js

package fit

import "foretoken/spec/adapt"

// HeteroColumns rearranges the points of all texts into one column per depth.
func HeteroColumns(all [][][]adapt.HeteroPoint, n int) [][]adapt.HeteroPoint {
	columns := make([][]adapt.HeteroPoint, n)
	for _, text := range all {
		for _, round := range text {
			for i, p := range round {
				columns[i] = append(columns[i], p)
			}
		}
	}
	return columns
}
