package main

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"time"

	"foretoken/internal/strictjson"
	"foretoken/webgpu"

	"github.com/hack-pad/safejs"
)

// Kernel choices are kept in the browser's Cache Storage, by adapter, so that the next visit neither times kernels
// again nor chooses others. The goodput tree's measured costs are kept with them. All of it is best effort: without
// storage the engine measures again.

// tuningKey is the absolute URL under which an adapter's choices are kept. A relative one has no base that the
// store accepts in a worker importing another origin's script, or in an extension.
func tuningKey(i webgpu.Info) string {
	return "https://foretoken.invalid/tuning/" + url.PathEscape(i.Identity())
}

// tuningStore is the cache that the worker opened while the program compiled.
func tuningStore() (safejs.Value, error) {
	opening, err := safejs.Global().Get("foretokenKept")
	if err != nil || opening.IsUndefined() {
		return safejs.Value{}, errors.New("the program was started without a store")
	}
	store, err := await(opening)
	if err == nil && store.IsUndefined() {
		err = errors.New("this browser stores nothing")
	}
	return store, err
}

// patience limits the time that a load, or closing, waits for the store. The store answers within milliseconds, but in
// Chromium a tab that ends while it writes can block it for good.
const patience = 2 * time.Second

// loadTuning returns the choices that are kept, or nil.
func loadTuning(key string) map[string]map[string]string {
	kept := make(chan map[string]map[string]string, 1)
	go func() { kept <- readTuning(key) }()
	select {
	case tuning := <-kept:
		return tuning
	case <-time.After(patience):
		return nil
	}
}

func readTuning(key string) map[string]map[string]string {
	store, err := tuningStore()
	if err != nil {
		return nil
	}
	response, err := awaitCall(store, "match", key)
	if err != nil || response.IsUndefined() {
		return nil
	}
	body, err := awaitCall(response, "text")
	if err != nil {
		return nil
	}
	s, err := body.String()
	if err != nil {
		return nil
	}
	var tuning map[string]map[string]string
	if strictjson.DecodeForeign([]byte(s), &tuning) != nil {
		return nil // from a version that wrote it otherwise
	}
	return tuning
}

var saving = make(chan struct{}, 1) // holds a value while choices are saved

// saveTuning adds choices to those kept: other models' stay.
func saveTuning(key string, tuning map[string]map[string]string) {
	saving <- struct{}{}
	defer func() { <-saving }()
	all := readTuning(key)
	if all == nil {
		all = map[string]map[string]string{}
	}
	for role, choices := range tuning {
		if all[role] == nil {
			all[role] = map[string]string{}
		}
		maps.Copy(all[role], choices)
	}
	b, err := json.Marshal(all)
	if err != nil {
		return
	}
	store, err := tuningStore()
	if err != nil {
		return
	}
	class, err := safejs.Global().Get("Response")
	if err != nil {
		return
	}
	response, err := class.New(string(b))
	if err != nil {
		return
	}
	_, _ = awaitCall(store, "put", key, response) // a full disk costs the next visit a second, no more
}

// keepCosts stores what passes cost after the first request since they were timed and now and then afterwards, while
// the request's result is on its way.
func (e *engine) keepCosts() {
	tuning := e.session.Tuning()
	if len(tuning["costs"]) == 0 {
		return
	}
	e.requests++
	if e.requests&(e.requests-1) == 0 { // the 1st, 2nd, 4th, 8th …
		go saveTuning(e.kept, map[string]map[string]string{"costs": tuning["costs"]})
	}
}
