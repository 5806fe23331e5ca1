package spec

// Policy decides round by round what drafting may cost. The engine then caps
// the budget by the remaining context, tokens and rows.
type Policy interface {
	// Plan is asked before each round. Free is the greatest budget that could
	// still be used; a plan above it is cut down.
	Plan(free Budget) Budget
}

// Fixed spends the same budget every round.
type Fixed Budget

var _ Policy = Fixed{}

// Plan returns the budget itself.
func (f Fixed) Plan(Budget) Budget { return Budget(f) }
