package pair

import (
	"fmt"

	"foretoken/models/graph"
	"foretoken/models/runner"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Memory is the number of bytes that loading a pair allocates on a device. Target includes the features kept for an
// EAGLE-3 head.
type Memory struct {
	Target        graph.Memory
	Draft, EAGLE3 *graph.Memory // nil without
	Total         int64
}

func (m *Memory) String() string { return graph.Size(m.Total) + ": " + m.parts() }

func (m *Memory) parts() string {
	text := m.Target.String()
	if m.Draft != nil || m.EAGLE3 != nil {
		text = fmt.Sprintf("target %s: %s", graph.Size(m.Target.Total()), text)
	}
	for _, other := range []struct {
		name string
		*graph.Memory
	}{{"draft", m.Draft}, {"EAGLE-3 head", m.EAGLE3}} {
		if other.Memory != nil {
			text += fmt.Sprintf("; %s %s: %s", other.name, graph.Size(other.Total()), other.Memory)
		}
	}
	return text
}

// Memory returns what loading the pair allocates on a device of these limits, to the byte. It reads no weights, and
// refuses a pair that needs more than the device or Options.Memory gives.
func (p *Files) Memory(limits webgpu.Limits) (*Memory, error) {
	m, err := p.plan(limits)
	most, why := p.options.Memory, "allowed"
	if d := int64(limits.MaxMemory); d > 0 && (most <= 0 || d < most) {
		most, why = d, "that the device can have"
	}
	if err != nil || most <= 0 || m.Total <= most {
		return m, err
	}
	fit := func(positions int, kv kernels.KVFormat) bool {
		q := *p
		q.positions, q.kv = positions, kv
		m, err := q.plan(limits)
		return err == nil && m.Total <= most
	}
	takes, has := graph.Sizes(m.Total, most)
	return nil, fmt.Errorf("foretoken: loading takes %s (%s), more than the %s %s; %s", takes, m.parts(), has, why,
		graph.Advice(p.positions, p.kv, fit))
}

func (p *Files) plan(limits webgpu.Limits) (*Memory, error) {
	m := &Memory{}
	var err error
	if m.Target, err = runner.Plan(p.target, p.loading("target"), limits); err != nil {
		return nil, err
	}
	m.Total = m.Target.Total()
	if p.draft != nil {
		d, err := runner.PlanDraft(p.draft, p.loading("draft"), limits)
		if err != nil {
			return nil, err
		}
		m.Draft, m.Total = &d, m.Total+d.Total()
	}
	if p.head != nil {
		h, features, err := runner.PlanEAGLE3(p.target, p.loading("target"), p.head, p.loading("eagle3"), limits)
		if err != nil {
			return nil, err
		}
		m.Target.Workspace += features
		m.EAGLE3, m.Total = &h, m.Total+h.Total()+features
	}
	return m, nil
}

// loading returns the loading options of a model, by its stage of Progress.
func (p *Files) loading(stage string) graph.Options {
	o := graph.Options{Context: p.positions, KV: p.kv, Vocab: p.vocab}
	if stage == "target" {
		o.MaxRows, o.TopK = p.options.Nodes, p.options.Candidates
	}
	return o
}
