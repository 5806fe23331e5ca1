package spec

// Policy decides round by round what drafting may cost. The engine then caps
// the budget by the remaining context, tokens and rows.
type Policy interface {
	// NextBudget is asked before each round. free is the most that could still be used; a larger budget is cut down.
	NextBudget(free Budget) Budget
}

// Fixed spends the same budget every round.
type Fixed Budget

var _ Policy = Fixed{}

// NextBudget returns the budget itself.
func (f Fixed) NextBudget(Budget) Budget { return Budget(f) }
