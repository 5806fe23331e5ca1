//go:build !js

// Natively the command prints what the page is built with: the catalog of methods, and the models of
// models/catalog.json, which it refuses if an entry is bad. It runs in the root of the repository.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	models "foretoken/models/catalog"
)

func main() {
	if err := printCatalog(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printCatalog() error {
	body, err := os.ReadFile(filepath.Join("models", "catalog.json"))
	if err != nil {
		return err
	}
	known, err := models.Read(body)
	if err != nil {
		return err
	}
	for _, m := range known.Models {
		m.HParams = nil // only the memory follows from it
	}
	return json.NewEncoder(os.Stdout).Encode(struct {
		catalog
		Models []*models.Model `json:"models"`
	}{newCatalog(), known.Models})
}
