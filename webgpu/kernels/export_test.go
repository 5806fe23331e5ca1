package kernels

// Hash and Gumbel show the reference noise to the tests that compare it with package spec's.
func Hash(seed uint64, stream, position, id uint32) uint32 {
	w := DrawParams{Seed: seed}.Words()
	return rowKey(w[:], stream, position).hash(id)
}

func Gumbel(seed uint64, stream, position, id uint32) float64 {
	w := DrawParams{Seed: seed}.Words()
	return rowKey(w[:], stream, position).gumbel(id)
}

func Uniform(seed uint64, stream, position uint32) float64 {
	w := DrawParams{Seed: seed}.Words()
	return rowKey(w[:], stream, position).uniform(0)
}

const (
	StreamAccept   = streamAccept
	StreamResidual = streamResidual
)
