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

// after has progress count tokens before those that are reported.
func after(before int, progress func(done int)) func(done int) {
	if progress == nil {
		return nil
	}
	return func(done int) { progress(before + done) }
}
