package main

import (
	"html"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"time"
)

// nothing is the content security policy of responses that are no pages: errors, models, pictures.
const nothing = "default-src 'none'; frame-ancestors 'none'"

// metaPolicy finds the policy that a page names in its own head.
var metaPolicy = regexp.MustCompile(`(?is)<meta\s+http-equiv="Content-Security-Policy"\s+content="([^"]*)"`)

// policy is the content security policy of a file: a page's own, as a header, so that it holds from the first
// byte and can name what only a header may: who may frame the page. That is the site itself; the page
// made to be framed by others, embed.html, by anybody. A worker has the policy of its script's response and
// none of its page's, so that scripts come with the first page's.
func (s *site) policy(root *os.Root, name string) string {
	page := name
	switch path.Ext(name) {
	case ".html":
	case ".js", ".mjs":
		root, page = s.root, "index.html"
	default:
		return nothing
	}
	text, err := root.ReadFile(page)
	if err != nil {
		return nothing
	}
	found := metaPolicy.FindSubmatch(text)
	if found == nil {
		return "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'self'"
	}
	own := strings.Join(strings.Fields(html.UnescapeString(string(found[1]))), " ")
	framed := "'self'"
	if path.Base(name) == "embed.html" {
		framed = "*"
	}
	return strings.TrimSuffix(own, ";") + "; frame-ancestors " + framed
}

// pieceTime is the deadline for each piece of an answer. Browsers stop reading a model while they write the bytes
// they have to disk.
const pieceTime = 5 * time.Minute

// patient sets a new deadline for every piece of an answer, because no deadline for the complete answer fits both a
// style sheet and a model of gigabytes.
type patient struct{ http.ResponseWriter }

func (w *patient) Write(b []byte) (int, error) {
	// A recorder has no deadline, and needs none.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(pieceTime))
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *patient) Unwrap() http.ResponseWriter { return w.ResponseWriter }
