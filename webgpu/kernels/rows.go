package kernels

// Rows places the rows of an activation matrix inside its view, in elements.
type Rows struct {
	View   View
	Offset int // of the first row
	Stride int // between rows

	// Rows that matmul.RecordNext or layer.RecordEmbedNext wrote hold x·gain and then this many sums of squares of x.
	// A product divides by sqrt(mean(x²) + Eps), so that its input is the norm of x.
	Squares int
	Eps     float64
}
