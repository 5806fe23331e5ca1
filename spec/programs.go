package spec

// DraftKind names a way in which a draft model runs.
type DraftKind int

// The ways.
const (
	DraftNothing  DraftKind = iota // the model does not run
	DraftTree                      // trees of the best candidates
	DraftExpanded                  // the same, from beams that the host chooses
	DraftPruned                    // trees whose beams a classifier chooses
	DraftDrawn                     // trees whose children are sampled without replacement
	DraftChain                     // sampled chains
)

// Programs lists what a request runs on its models at most, for Prepare.
type Programs struct {
	Budget Budget // of a round
	Draft  DraftKind
	Depth  int   // passes after the root's of a tree
	Widths []int // candidates per beam of trees: one width, or those that a policy chooses among

	Classifier *NodeClassifier // of DraftPruned
	EntropyTop int             // as a DraftRequest's
	Estimator  *Estimator      // the acceptance head whose estimates are read; nil: drafts do not pay for any

	Pass   PassKind
	Model  DraftModel      // whose drafts the target verifies; nil: none
	Joint  bool            // it may verify them in the run that drafts
	Adjust AdjustmentKinds // of the logits
}

// NodeClassifier estimates the chance that a drafted node is accepted: a perceptron with one hidden layer of ReLUs and
// a sigmoid after the output.
type NodeClassifier struct {
	Units []NodeUnit // the hidden layer
	Bias  float64    // of the output
}

// NodeUnit is a unit of a NodeClassifier's hidden layer: the weights of its inputs, its bias, and its weight in the
// output.
type NodeUnit struct {
	Probability float64 // of Π q along the path from the root, the node's own included
	Entropy     float64 // of the distribution that the node was drawn from, its parent's, in nats
	Depth       float64 // 1 for a child of the root
	Bias        float64
	Output      float64
}
