package kernels

import "foretoken/webgpu"

var siblingsAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}

// Siblings completes a TreePlan whose children were not known when it was made, see TreePlan.Await: from the tokens of
// the tree's nodes, in whose order the children of one row follow those of the row before, it fills in Children.
func (r *Recorder) Siblings(rows int, nodes, tokens, children View) {
	params := []uint32{u32(rows)}
	r.add(source("siblings", siblingsAccess, siblingsRef), r.groupsFor(rows, 64), params, nodes, tokens, children)
}
