package foretoken

import (
	"reflect"
	"strings"
	"testing"
)

// TestEverySettingIsAField: the fields of a request in JSON and the rows of the table are the same.
func TestEverySettingIsAField(t *testing.T) {
	rows := map[string]bool{}
	for _, s := range Settings() {
		if rows[s.Name] {
			t.Errorf("%s has two rows", s.Name)
		}
		rows[s.Name] = true
		field := s.In(&Request{})
		if !field.IsValid() {
			t.Errorf("%s is no field of a request", s.Name)
			continue
		}
		if s.Help == "" || s.Group == "" || strings.HasSuffix(s.Help, ".") {
			t.Errorf("%s: group %q, help %q", s.Name, s.Group, s.Help)
		}
		if k := field.Kind(); s.Choices != nil && k != reflect.String && k != reflect.Slice {
			t.Errorf("%s has choices and is a %s", s.Name, k)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Request]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && !rows[name] {
			t.Errorf("%s has no row in the table of settings", name)
		}
	}
}
