// Package suites holds the benchmark suites of the program: for each paper its tables, as JSON that package bench
// reads. They are embedded because foretoken bench finds them by name without a checkout.
package suites

import "embed"

//go:embed *.json
var Files embed.FS
