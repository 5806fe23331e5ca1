package grammar

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// draftsOf describes the drafts that have a keyword.
func draftsOf(k Keyword) string {
	switch {
	case k.First == k.Last:
		return k.First.String()
	case k.First == Draft4 && k.Last == Draft2020:
		return "all"
	case k.Last == Draft2020:
		return k.First.String() + " on"
	}
	return k.First.String() + " to " + k.Last.String()
}

// TestPageHasTheKeywords compares the table of docs/json-schema.md with Keywords.
func TestPageHasTheKeywords(t *testing.T) {
	want := "| keyword | drafts | | |\n|---|---|---|---|\n"
	for _, k := range Keywords {
		want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.Name, draftsOf(k), k.Role, k.Note)
	}
	page, err := os.ReadFile("../../docs/json-schema.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n\n"+want+"\n") {
		t.Errorf("docs/json-schema.md has another table than this:\n%s", want)
	}
}
