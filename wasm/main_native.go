//go:build !js

// Natively the command prints the catalog of methods, which the page is built with.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	b, err := json.Marshal(newCatalog())
	if err == nil {
		_, err = fmt.Println(string(b))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
