package jinja

import (
	"math/bits"
	"sort"
	"strings"

	"foretoken/internal/quote"
)

// sort orders indices by their keys; equal ones keep their places.
func (m *machine) sort(order []int, key func(i int) Value, reverse bool) {
	// Comparisons charge themselves; the sort moves n log² n elements.
	if n := bits.Len(uint(len(order))); !m.spend(len(order) * n * n / 16) {
		return
	}
	sort.SliceStable(order, func(i, j int) bool {
		if m.err != nil {
			return false
		}
		if reverse {
			return m.less(key(order[j]), key(order[i]))
		}
		return m.less(key(order[i]), key(order[j]))
	})
}

// sortKey returns the value that an element is sorted by: its attribute, lowered unless case matters. The arguments
// are case_sensitive and attribute.
func (m *machine) sortKey(item Value, a arguments, sensitive, attribute int) Value {
	if name, ok := a.get(attribute, "attribute"); ok && name != nil {
		item = m.path(item, name)
	}
	if s, ok := item.(string); ok {
		if v, ok := a.get(sensitive, "case_sensitive"); !ok || !truth(v) {
			return m.changed(s, strings.ToLower)
		}
	}
	return item
}

// sorted orders elements by keys that are worked out once.
func (m *machine) sorted(items []Value, key func(Value) Value, reverse bool) []Value {
	if !m.makesAll(len(items), 2*perItem) {
		return nil
	}
	keys, order := make([]Value, len(items)), make([]int, len(items))
	for i, item := range items {
		keys[i], order[i] = key(item), i
	}
	m.sort(order, func(i int) Value { return keys[i] }, reverse)
	out := make([]Value, len(items))
	for i, from := range order {
		out[i] = items[from]
	}
	return out
}

func sortFilter(m *machine, v Value, a arguments) Value {
	reverse, _ := a.get(0, "reverse")
	return &List{Items: m.sorted(m.items(v), func(item Value) Value { return m.sortKey(item, a, 1, 2) },
		truth(reverse))}
}

func dictSort(m *machine, v Value, a arguments) Value {
	d, ok := v.(*Dict)
	if !ok {
		return m.fail("dictsort needs a dictionary, not %s", m.describe(v))
	}
	by := int64(0)
	switch what := m.text(a, 1, "by", "key"); what {
	case "key":
	case "value":
		by = 1
	default:
		return m.fail("dictsort goes by key or value, not %s", quote.Text(what))
	}
	reverse, _ := a.get(2, "reverse")
	pairs, ok := dictItems(m, d).(*List)
	if !ok {
		return nil
	}
	return &List{Items: m.sorted(pairs.Items, func(p Value) Value {
		return m.sortKey(m.item(p, by), a, 0, 9)
	}, truth(reverse))}
}

func unique(m *machine, v Value, a arguments) Value {
	seen := map[any]bool{}
	out := NewList()
	for _, item := range m.items(v) {
		k := m.sortKey(item, a, 0, 1)
		key, ok := hashable(k)
		if !ok {
			return m.fail("unique cannot compare %s", m.describe(item))
		}
		if m.weighs(k); !seen[key] {
			seen[key] = true
			out.Items = append(out.Items, item)
		}
		if !m.makes(perKey) {
			return nil
		}
	}
	return out
}
