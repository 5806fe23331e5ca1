package bench

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"foretoken/spec/method"
)

func TestMethodListsTakeTheSettingsOfEveryRow(t *testing.T) {
	var names []string
	for _, m := range method.All() {
		names = append(names, m.Settings...)
	}
	for _, a := range method.Adapters() {
		names = append(names, a.Settings...)
	}
	for _, v := range method.Verifiers() {
		names = append(names, v.Settings...)
	}
	for _, name := range names {
		flag := strings.ReplaceAll(name, "_", "-")
		if !slices.ContainsFunc(settable(), func(f reflect.StructField) bool { return settingName(f) == flag }) {
			t.Errorf("a request has no field for the setting %s", name)
		}
	}
}
