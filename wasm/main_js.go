// Command wasm is the engine as the page's worker loads it: it installs globalThis.foretokenEngine, whose methods
// return promises and exchange JSON strings, one for each round, and otherwise adds nothing to package foretoken.
package main

import (
	"fmt"
	"os"
)

// slack is memory without use, which browsers provide when it is first touched: never. Go collects garbage when the heap
// has doubled, and a small one does so several times while a model loads.
var slack []byte

func main() {
	slack = make([]byte, 16<<20)
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {} // the methods run in goroutines of their own
}
