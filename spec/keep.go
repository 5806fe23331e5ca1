package spec

// Keeper is a model that begins a request with what it holds of an earlier one, as far as
// both begin alike. The next conversation turn then costs the prefill of what is new in it.
// Generators ask it instead of Reset.
type Keeper interface {
	// Keep cuts the sequence to the longest prefix of it that tokens begin with, and returns
	// how many tokens that is. What was drafted and not committed is dropped. What
	// is kept has the bits that prefilling it again would give.
	Keep(tokens []int32) int
}

// keep has a model begin a request that starts with tokens, and returns how many of them it
// holds already. A model that keeps nothing is emptied.
func keep(model interface{ Reset() }, tokens []int32) int {
	if k, ok := model.(Keeper); ok {
		return k.Keep(tokens)
	}
	model.Reset()
	return 0
}

// Settler is a Target or a DraftModel whose Prefill returns while the device is still at it.
type Settler interface {
	// Settle waits until the device has done what this model, and models before it, gave it to do.
	Settle() error
}

// settle waits for what model was prefilled with, so that nothing that comes after is charged with its time.
func settle(model any) error {
	if s, ok := model.(Settler); ok {
		return s.Settle()
	}
	return nil
}

// after has progress count tokens before those that are reported.
func after(before int, progress func(done int)) func(done int) {
	if progress == nil {
		return nil
	}
	return func(done int) { progress(before + done) }
}
