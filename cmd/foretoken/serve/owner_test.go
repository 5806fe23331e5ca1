//go:build !js

package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"foretoken"
	"foretoken/spec"
)

// owned is a request of a user for one text; "" names none.
func owned(user string, more string) string {
	if user != "" {
		more += fmt.Sprintf(`, "user": %q`, user)
	}
	return `{"model": "demo", "prompt": "func main() { return the secret of the first user }", "max_tokens": 2, ` +
		`"temperature": 0` + more + `}`
}

// TestWhosePrefix asks for one text as several users, one after the other: only the user of the last request finds its
// prompt in the cache.
func TestWhosePrefix(t *testing.T) {
	t.Attr("attack", "a prompt that others may have sent, whose time and cached_tokens would tell")
	t.Attr("bound", "a request of another user than the last one's reuses nothing, unless with --share-cache")
	long := strings.Repeat("u", 1<<16)
	reused := 0
	for _, shares := range []bool{false, true} {
		w := serve(t, func(c *Config) { c.ShareCache = shares })
		w.complete(textPath, `{"model": "demo", "prompt": "other", "max_tokens": 1, "user": "before"}`)
		for i, c := range []struct {
			user, more string
			hit        bool // without --share-cache
		}{
			{user: "ann"}, {user: "ann", hit: true},
			{user: "ben"}, {user: "ann"}, // hers is gone
			{user: ""}, {user: "", hit: true}, // those without a user share one
			{user: "", more: `, "user": ""`, hit: true}, {user: "", more: `, "user": null`, hit: true},
			{user: "Ann"}, {user: "ann "}, {user: long + "1"}, {user: long + "2"}, {user: long + "2", hit: true},
			{user: short(long + "1")},
			{user: "ann", more: `, "foretoken": {"policy": "none"}`},
			{user: "ben", more: `, "foretoken": {"policy": "eagle2"}`}, // the draft's cache, too
			{user: "ben", more: `, "foretoken": {"policy": "eagle2"}`, hit: true},
			{user: "ben", more: `, "n": 2`, hit: true},
			{user: "ben", more: `, "foretoken": {"no_reuse": true}`},
		} {
			got := w.complete(textPath, owned(c.user, c.more))
			u := got.Usage
			hit := u.Details.Cached == u.Prompt-1
			want := c.hit || shares && i > 0 && !strings.Contains(c.more, "no_reuse")
			if hit != want || !hit && !shares && u.Details.Cached > 0 {
				t.Errorf("shared %v, %d: user %.9q%s: %d of %d tokens cached", shares, i, c.user, c.more,
					u.Details.Cached, u.Prompt)
			}
			if !c.hit && !shares && hit {
				reused++
			}
		}
	}
	t.Attr("measured", fmt.Sprintf("%d tokens of other users reused", reused))
}

// TestOwnersOfTexts follows who the engine is told to decode for, with others between the texts of a request.
func TestOwnersOfTexts(t *testing.T) {
	for _, shares := range []bool{false, true} {
		w := serve(t, func(c *Config) { c.ShareCache = shares })
		var owners []string
		w.engine.OnGenerate = func(_ context.Context, _ []int32, r foretoken.Request,
			_ func(*foretoken.Event) error) (*foretoken.Result, error) {
			owners = append(owners, r.Owner)
			return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
		}
		for _, user := range []string{"ann", "", "ben"} {
			w.complete(textPath, owned(user, `, "n": 2`))
		}
		want := "ann ann   ben ben"
		if shares {
			want = "     "
		}
		if got := strings.Join(owners, " "); got != want {
			t.Errorf("shared %v: decoded for %q, want %q", shares, got, want)
		}
	}
}
