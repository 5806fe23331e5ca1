package tune

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// Choices holds the timed choices for an adapter: the lanes of reductions, and for each format one kernel family,
// or several if the best one depends on the processor; those are timed at load. Only software adapters have shipped
// choices: there the shape of a matrix matters little, and timing all families would dominate the load.
type Choices struct {
	Backend  string            `json:"backend"`
	Adapter  string            `json:"adapter"` // lower-case part of adapter, architecture or vendor name
	Rows     string            `json:"rows"`
	Families map[string]string `json:"families"` // by format, separated by spaces
}

// measured is written by scripts/choices.sh.
//
//go:embed choices.json
var measured []byte

var measuredChoices = sync.OnceValue(func() []Choices {
	var all []Choices
	if err := json.Unmarshal(measured, &all); err != nil {
		panic("tune: choices.json: " + err.Error()) // the file is embedded, and a test reads it
	}
	return all
})

// Shipped returns the choices measured on an adapter like this one, or none.
func Shipped(i webgpu.Info) Choices {
	if !i.Software {
		return Choices{}
	}
	name := strings.ToLower(strings.Join([]string{i.Vendor, i.Architecture, i.Adapter}, " "))
	for _, c := range measuredChoices() {
		if c.Backend == i.Backend && strings.Contains(name, c.Adapter) {
			return c
		}
	}
	return Choices{}
}

// Candidates returns the families for a format, or nil if the device lacks one of them.
func (c Choices) Candidates(i webgpu.Info, format kernels.Format) []matmul.Family {
	var all []matmul.Family
	for name := range strings.FieldsSeq(c.Families[format.String()]) {
		f, ok := matmul.ParseFamily(i, name)
		if !ok {
			return nil
		}
		all = append(all, f)
	}
	return all
}
