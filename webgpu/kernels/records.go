package kernels

// FilterWords is the length in words of a row's record in Filter's output.
const FilterWords = 6

// RecordConst gives the shaders the length of a record.
var RecordConst = Const("RECORD", uint32(FilterWords))

// SampleWords is the length in words of a row's record in Sample's output.
func SampleWords(k int) int { return 4 + 2*k }

// MaxTopK is the maximum number of candidates of a row.
const MaxTopK = 64

// Streams of package spec that rejection sampling draws from; this package cannot import it.
const (
	StreamAccept   = 2
	StreamResidual = 3
)
