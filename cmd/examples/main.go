//go:build !js

// Command examples chooses the prompts that the page offers with the built-in pair, and records the run that the page
// plays first and the runs of its playground. It writes models/demo/examples.json, web/recorded.trace and
// web/src/playground/recorded; run it in the repository's root.
//
//	go run ./cmd/examples
//
// signatures.txt lists functions, each by its comment and its signature. The SHA-256 of the two sets the order, so that
// nobody chose it. The command refuses a list that shares a line with the target's training text, of which it reads
// what is downloaded. The target completes each function greedily, and the first eight whose completions pass are the
// examples: the function ends within the tokens of the page's request, has at least seven lines after its signature,
// parses, reads each parameter, does not call itself, has no line twice, type-checks and passes go vet.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"

	"foretoken"
	"foretoken/models/demo"
	"foretoken/trace"
	"foretoken/webgpu"
	"foretoken/webgpu/open"
)

// What the command writes.
const (
	examplesFile = "models/demo/examples.json"
	recordedFile = "web/recorded.trace"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("examples: ")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatal("it takes no arguments")
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	all := signatures()
	folders, missing, err := corpus()
	if err != nil {
		return err
	}
	seen, err := seenIn(folders, all)
	if err != nil {
		return err
	}
	if len(seen) > 0 {
		return fmt.Errorf("the training text has lines of the signatures: %q", seen)
	}
	if len(missing) > 0 {
		log.Printf("not compared with the training text of %q; go mod download fetches it", missing)
	}
	dev, _, err := open.Device(ctx, "cpu")
	if err != nil {
		return err
	}
	defer dev.Destroy()
	session, err := openPair(ctx, dev)
	if err != nil {
		return err
	}
	defer session.Close()
	passed, err := choose(ctx, session, all)
	if err != nil {
		return err
	}
	if len(passed) < shown {
		return fmt.Errorf("%d of %d completions pass, want %d; add signatures", len(passed), len(all), shown)
	}
	chosen := Chosen{Tried: len(all), Passed: len(passed), Examples: passed[:shown]}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(chosen); err != nil {
		return err
	}
	recorded, err := recording(ctx, session, chosen.Examples)
	if err != nil {
		return err
	}
	log.Printf("%d of %d completions pass", len(passed), len(all))
	if err := os.WriteFile(examplesFile, b.Bytes(), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(recordedFile, recorded, 0o644); err != nil {
		return err
	}
	return play(ctx, session, recorded)
}

// play records the runs of the playground, of the prompt of a recording.
func play(ctx context.Context, s *foretoken.Session, recorded []byte) error {
	of, err := trace.Read(recorded)
	if err != nil {
		return err
	}
	for _, temperature := range temperatures() {
		b, err := record(ctx, s, of.Prompt, large(temperature))
		if err != nil {
			return err
		}
		if err := os.WriteFile(playgroundFile(temperature), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// openPair opens the built-in pair.
func openPair(ctx context.Context, dev webgpu.Device) (*foretoken.Session, error) {
	return foretoken.Open(ctx, dev, demo.Target(), demo.Draft(), foretoken.Options{Context: 512})
}
