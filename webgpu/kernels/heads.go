package kernels

// Heads describes the heads of an attention layer.
type Heads struct {
	Query, KV int // Query is a multiple of KV
	Dim       int // of a head, a multiple of 8 from 8 to 256
	Rotary    int // leading elements of a head that are rotated, a multiple of 4; 0: none
	HalfSplit bool
	Window    int     // positions that a row attends to, its own included; 0: all
	Scale     float64 // of q·k; 0: 1/√Dim
	Format    KVFormat
	// Shares: the layer reads the cache of another layer or model, which KV and Format describe. Its rows have queries
	// alone, and nothing writes the cache.
	Shares bool
}

// RowKV returns the key heads of a row of queries, keys and values, which has as many value heads.
func (h Heads) RowKV() int {
	if h.Shares {
		return 0
	}
	return h.KV
}

// Width returns the row length of a buffer of queries, keys and values.
func (h Heads) Width() int { return (h.Query + 2*h.RowKV()) * h.Dim }

// RowWords is the length of a row's entry in the rows buffer that rope and attention read:
//
//	0 position
//	1 KV slot
//	2 shared: positions below it have their slots in the sequence's table; the positions from it on are the row's
//	  ancestors in the tree, the row itself last, which have theirs in the ancestor list
//	3 the length of the prefix with table[i] == i; 0 is always correct
const RowWords = 4

// Slots locates the keys of each row in the KV cache.
type Slots struct {
	Rows      View // u32 (m, RowWords)
	Table     View // u32 (context): KV slot of each committed position
	Ancestors View // u32 (m, Stride): KV slots of the positions from the row's shared count on
	Stride    int
}
