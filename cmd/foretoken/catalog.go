//go:build !js

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"foretoken/internal/quote"
	"foretoken/models/catalog"
	"foretoken/models/graph"
)

func catalogCommand(c *console) *cobra.Command {
	cmd := &cobra.Command{Use: "catalog", Short: "Check the list of models that the page offers"}
	cmd.AddCommand(catalogCheckCommand(c))
	return cmd
}

type catalogCheckOptions struct {
	hub           string
	offline, json bool
}

// catalogChecked is the result of catalog check.
type catalogChecked struct {
	File      string   `json:"file"`
	Models    int      `json:"models"`
	Coming    int      `json:"coming"`    // models that need an architecture or a format which does not run yet
	Asked     int      `json:"asked"`     // files that hosts were asked for
	Confirmed int      `json:"confirmed"` // files that their hosts have as the catalog says, or now says
	Unchecked int      `json:"unchecked"` // files without a checksum
	Problems  []string `json:"problems"`
}

func catalogCheckCommand(c *console) *cobra.Command {
	var o catalogCheckOptions
	cmd := &cobra.Command{
		Use:   "check [CATALOG.json]",
		Short: "Check a catalog by its schema, and its files with their hosts",
		Long: "Check a catalog of models, by default models/catalog.json.\n\n" +
			"Every entry is checked by the schema. Each file that is not built in is then asked for at its\n" +
			"host, one byte with the header Range and no other header, as a page does without asking the host for\n" +
			"permission first. What the host says is written into the entry: the size, the revision\n" +
			"that a branch stands for, and the SHA-256. A file that differs from its checksum is a problem.",
		Example: "  foretoken catalog check\n  foretoken catalog check --offline models/catalog.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := filepath.Join("models", "catalog.json")
			if len(args) > 0 {
				path = args[0]
			}
			return o.run(cmd.Context(), c, path)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.offline, "offline", false, "check the schema alone, without a network")
	f.StringVar(&o.hub, "hub", "https://huggingface.co", "address of the hub that has the repositories")
	f.BoolVar(&o.json, "json", false, "print one JSON object: the counts and the problems")
	return cmd
}

func (o *catalogCheckOptions) run(ctx context.Context, c *console, path string) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	list, err := catalog.Read(body)
	if err != nil {
		return err
	}
	result := catalogChecked{File: path, Models: len(list.Models), Problems: []string{}}
	for _, m := range list.Models {
		if m.Needs != "" {
			result.Coming++
		}
		for _, f := range m.Files() {
			if !o.offline && f.Repository != catalog.Builtin {
				result.Asked++
				if err := o.confirm(ctx, f); err != nil {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					problem := fmt.Sprintf("%s: %v", quote.Name(m.ID), err)
					result.Problems = append(result.Problems, problem)
					c.note("%s", problem)
				} else {
					result.Confirmed++
				}
			}
			if f.SHA256 == catalog.Unchecked {
				result.Unchecked++
			}
		}
	}
	text, err := list.Text()
	if err == nil && string(text) != string(body) {
		err = replaceFile(path, text)
	}
	if err != nil {
		return err
	}
	if o.json {
		err = printObject(c, result)
	} else {
		fmt.Fprintf(c.out, "%s: %d models, %d of them coming; %d of %d files confirmed, %d without a checksum\n",
			quote.Name(path), result.Models, result.Coming, result.Confirmed, result.Asked, result.Unchecked)
	}
	if n := len(result.Problems); err == nil && n > 0 {
		return fmt.Errorf("foretoken: catalog: %d of %d files could not be confirmed; the first is %s", n, result.Asked,
			result.Problems[0])
	}
	return err
}

// confirm asks the host of a file for its first byte, and writes what the host says of the file into it.
func (o *catalogCheckOptions) confirm(ctx context.Context, f *catalog.File) error {
	ctx, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	address, err := url.JoinPath(o.hub, f.Repository, "resolve", f.Revision, f.Name)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header = http.Header{"Range": {"bytes=0-0"}, "User-Agent": {""}} // an empty one is not sent
	// The hub answers with a redirect to a store, and only the hub's answer has the file's checksum and revision.
	var sum, revision string
	read := func(h http.Header) {
		sum = cmp.Or(sum, strings.Trim(h.Get("X-Linked-Etag"), `"`))
		revision = cmp.Or(revision, h.Get("X-Repo-Commit"))
	}
	client := http.Client{CheckRedirect: func(next *http.Request, via []*http.Request) error {
		read(next.Response.Header)
		next.Header.Del("Referer")
		if len(via) > 5 {
			return errors.New("the host redirects without an end")
		}
		return nil
	}}
	response, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", quote.Name(f.Name), err)
	}
	defer response.Body.Close()
	read(response.Header)
	if response.StatusCode != http.StatusPartialContent {
		return fmt.Errorf("%s: the host answers %s to a range of %s, want 206", quote.Name(f.Name),
			quote.Name(response.Status), quote.Name(f.Repository))
	}
	_, total, _ := strings.Cut(response.Header.Get("Content-Range"), "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil || size <= 0 {
		return fmt.Errorf("%s: the host gives no size: Content-Range is %s", quote.Name(f.Name),
			quote.Text(response.Header.Get("Content-Range")))
	}
	if len(sum) != 64 { // not the checksum of a large file
		sum = f.SHA256
	}
	if f.SHA256 != catalog.Unchecked && (sum != f.SHA256 || size != f.Bytes && f.Bytes != 0) {
		return fmt.Errorf("%s: the host has %s with SHA-256 %s, the catalog says %s and %s", quote.Name(f.Name),
			graph.Size(size), quote.Name(sum), graph.Size(f.Bytes), f.SHA256)
	}
	f.Bytes, f.SHA256, f.Revision = size, sum, cmp.Or(revision, f.Revision)
	return nil
}
