package tree

import "foretoken/webgpu/kernels"

// RecordSiblings fills in the children of ChildLists that were made with Await. tokens holds the tokens of the tree's
// nodes, ordered so that the children of a row follow the children of the row before.
func RecordSiblings(r *kernels.Recorder, rows int, nodes, tokens, children kernels.View) {
	kernel := shaders.Source("siblings", kernels.Inputs(2), kernels.Host{Ref: siblingsRef, Entry: "siblings"})
	r.Add(kernel, r.GroupsFor(rows, 64), kernels.Params(rows), nodes, tokens, children)
}
