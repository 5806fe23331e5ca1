package llama

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// choices are what timing chose on an adapter: the lanes of reductions, and a family for each format, or several where
// that depends on the processor, which are timed at load. Only software adapters have them: there the
// shape of a matrix matters little, and timing all families takes longer than all the rest of loading.
type choices struct {
	Backend  string            `json:"backend"`
	Adapter  string            `json:"adapter"` // part of the adapter's, the architecture's or the vendor's name, in lower case
	Rows     string            `json:"rows"`
	Families map[string]string `json:"families"` // by format, separated by spaces
}

// measured was written by scripts/choices.sh.
//
//go:embed choices.json
var measured []byte

var measuredChoices = sync.OnceValue(func() []choices {
	var all []choices
	if err := json.Unmarshal(measured, &all); err != nil {
		panic("llama: choices.json: " + err.Error()) // it is embedded, and tested
	}
	return all
})

// choicesFor are those that were measured on an adapter like this one; none for most.
func choicesFor(i webgpu.Info) choices {
	if !i.Software {
		return choices{}
	}
	name := strings.ToLower(strings.Join([]string{i.Vendor, i.Architecture, i.Adapter}, " "))
	for _, c := range measuredChoices() {
		if c.Backend == i.Backend && strings.Contains(name, c.Adapter) {
			return c
		}
	}
	return choices{}
}

// candidates are the families for a format, if the device has them all.
func (c choices) candidates(i webgpu.Info, format kernels.Format) []kernels.Family {
	var all []kernels.Family
	for name := range strings.FieldsSeq(c.Families[format.String()]) {
		f, ok := kernels.ParseFamily(i, name)
		if !ok {
			return nil
		}
		all = append(all, f)
	}
	return all
}
