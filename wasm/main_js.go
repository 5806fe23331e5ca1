// Command wasm is the engine as the page's worker loads it: it installs globalThis.foretokenEngine, whose methods
// return promises and exchange JSON strings, one for each round, and otherwise adds nothing to package foretoken.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {} // goroutines run the methods
}
