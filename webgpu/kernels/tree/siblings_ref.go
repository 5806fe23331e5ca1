package tree

import (
	"slices"

	"foretoken/webgpu"
)

func siblingsRef(_ [3]int, b []webgpu.Memory) {
	params, nodes, tokens, children := b[0], b[1], b[2], b[3]
	for row := range int(params[0]) {
		node := nodes[row*NodeWords:][:NodeWords]
		at, count := int(node[1]), int(node[2])
		drawn := tokens[1+at/2:][:count]
		copy(children[at:], drawn)
		copy(children[at+count:], drawn)
		slices.Sort(children[at+count:][:count])
	}
}
