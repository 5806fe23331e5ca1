package foretoken

import "foretoken/spec"

// Method is a way to decode by name: a drafter with what adapts and verifies it, in the
// settings of its source.
type Method struct {
	Name   string      `json:"name"`
	Title  string      `json:"title"` // a few words for people
	Lossy  bool        `json:"lossy"` // commits tokens that the target would not have chosen
	Config spec.Config `json:"config"`
}

// Methods are the methods that Request.Policy may name, drafters among them.
func Methods() []Method {
	with := func(name, title, drafter string, change func(*spec.Config)) Method {
		c := spec.DefaultConfig(drafter)
		if change != nil {
			change(&c)
		}
		return Method{Name: name, Title: title, Lossy: !spec.Lossless(c.Verifier), Config: c}
	}
	adapt := func(name string) func(*spec.Config) { return func(c *spec.Config) { c.Adapt = name } }
	return []Method{
		with(spec.DrafterNone, "plain decoding", spec.DrafterNone, nil),
		with(spec.DrafterAuto, "goodput tree, sized by measured costs", spec.DrafterAuto, nil),
		with(spec.DrafterChain, "chain of fixed length", spec.DrafterChain, nil),
		with(spec.DrafterEAGLE2, "EAGLE-2 tree", spec.DrafterEAGLE2, nil),
		with(spec.DrafterStatic, "tree of a fixed shape", spec.DrafterStatic, nil),
		with(spec.DrafterSampled, "tree sampled without replacement", spec.DrafterSampled, func(c *spec.Config) { c.Verifier = spec.VerifierWithoutReplacement }),
		with(spec.DrafterNgram, "prompt lookup", spec.DrafterNgram, nil),
		with(spec.DrafterNgramSimple, "n-gram lookup, simple", spec.DrafterNgramSimple, nil),
		with(spec.DrafterNgramMap, "n-gram lookup, map-k", spec.DrafterNgramMap, nil),
		with("hetero", "HeteroSpec on the EAGLE-2 tree", spec.DrafterEAGLE2, adapt(spec.AdaptHetero)),
		with("c2t", "C2T: a tree built by a classifier", spec.DrafterEAGLE2, func(c *spec.Config) {
			c.Adapt, c.Depth, c.TopK = spec.AdaptC2T, 9, 15
		}),
		with("c2t-chain", "C2T on a chain", spec.DrafterChain, func(c *spec.Config) { c.Adapt, c.Depth = spec.AdaptC2T, 10 }),
		with("acceptance", "EAGLE-2 tree stopped by an acceptance head", spec.DrafterEAGLE2, adapt(spec.AdaptAcceptance)),
		with("acceptance-chain", "chain stopped by an acceptance head", spec.DrafterChain, func(c *spec.Config) {
			c.Adapt, c.Depth = spec.AdaptAcceptance, 7
		}),
		with(spec.AdaptAdaEDL, "AdaEDL: chain stopped by an entropy bound", spec.DrafterChain, func(c *spec.Config) {
			c.Adapt, c.Depth = spec.AdaptAdaEDL, 10
		}),
		with(spec.AdaptAssisted, "assisted generation of transformers", spec.DrafterChain, adapt(spec.AdaptAssisted)),
		with(spec.AdaptAdaSD, "AdaSD", spec.DrafterChain, func(c *spec.Config) {
			c.Adapt, c.Verifier, c.Depth = spec.AdaptAdaSD, spec.VerifierAdaSD, 20
		}),
		with(spec.VerifierMARS, "MARS on the EAGLE-2 tree", spec.DrafterEAGLE2, func(c *spec.Config) { c.Verifier = spec.VerifierMARS }),
		with("eagle3", "EAGLE-2 tree by an EAGLE-3 head", spec.DrafterEAGLE2, func(c *spec.Config) { c.Source = spec.SourceEAGLE3 }),
	}
}

// methodConfig is the configuration of a method, or of the drafter of that name, known or
// not: package spec says what is wrong with a name.
func methodConfig(name string) spec.Config {
	for _, m := range Methods() {
		if m.Name == name {
			return m.Config
		}
	}
	return spec.DefaultConfig(name)
}
