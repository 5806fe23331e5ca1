package main

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
)

// mimeTypes is fixed here because the system's table differs between machines,
// and a browser refuses to stream WebAssembly under any other type.
var mimeTypes = map[string]string{
	".html":        "text/html; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".mjs":         "text/javascript; charset=utf-8",
	".css":         "text/css; charset=utf-8",
	".json":        "application/json",
	".map":         "application/json",
	".jsonl":       "application/jsonl",
	".txt":         "text/plain; charset=utf-8",
	".svg":         "image/svg+xml",
	".png":         "image/png",
	".webmanifest": "application/manifest+json",
	".ico":         "image/x-icon",
	".wasm":        "application/wasm",
	".gguf":        "application/octet-stream",
}

// hashedName matches files whose name contains the hash of their content.
var hashedName = regexp.MustCompile(`-[A-Z0-9]{8}\.(js|css)$`)

// site serves one folder, and optionally a folder of models at /models/.
type site struct {
	root   *os.Root
	models *os.Root // nil without --models
	cors   bool     // pages of other ports of this machine may read everything
}

// newSite opens the folders. os.Root keeps every later lookup inside them, symbolic links included.
func newSite(dir, models string) (*site, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("--dir %s: no built site here; build it with `make demo` (%w)", dir, err)
	}
	if _, err := root.Stat("index.html"); err != nil {
		root.Close()
		return nil, fmt.Errorf("--dir %s: index.html is missing, the site is not built; build it with `make demo`", dir)
	}
	s := &site{root: root}
	if models != "" {
		if s.models, err = os.OpenRoot(models); err != nil {
			root.Close()
			return nil, fmt.Errorf("--models %s: %w", models, err)
		}
	}
	return s, nil
}

func (s *site) close() {
	s.root.Close()
	if s.models != nil {
		s.models.Close()
	}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = &patient{ResponseWriter: w}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if s.cors {
		share(h, r.Header.Get("Origin"))
	}
	h.Set("Content-Security-Policy", nothing) // until it is known what is served
	// A cross-origin isolated page has shared memory, which threads need, and timers of 5 µs instead of 100 µs, which
	// the milliseconds per round are read from.
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	if !loopbackHost(r.Host) {
		// A name that was made to resolve to 127.0.0.1 (DNS rebinding) would let a foreign page read local files.
		http.Error(w, "this server answers only to localhost", http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	name, ok := cleanPath(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if rest, under := strings.CutPrefix(name, "models/"); under && s.models != nil &&
		strings.EqualFold(path.Ext(rest), ".gguf") {
		// The built-in pair lives below models/ of the site; a file of the
		// mounted folder comes first, the site's own second.
		if s.serveFile(w, r, s.models, rest) {
			return
		}
	}
	if strings.HasSuffix(r.URL.Path, "/") {
		name = path.Join(name, "index.html")
	} else if info, err := s.root.Stat(name); err == nil && info.IsDir() {
		if index, err := s.root.Stat(path.Join(name, "index.html")); err == nil && index.Mode().IsRegular() {
			target := "/" + name + "/"
			if r.URL.RawQuery != "" {
				target += "?" + r.URL.RawQuery
			}
			http.Redirect(w, r, target, http.StatusMovedPermanently)
			return
		}
	}
	if !s.serveFile(w, r, s.root, name) {
		http.NotFound(w, r)
	}
}

// share lets a page of another port of this machine read an answer, also one that is cross-origin isolated. Pages of
// other hosts may not: local models are no business of theirs.
func share(h http.Header, origin string) {
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Add("Vary", "Origin")
	if u, err := url.Parse(origin); err == nil && u.Host != "" && loopbackHost(u.Host) {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Content-Encoding, Content-Range, ETag")
	}
}

// loopbackHost reports whether a Host header names this machine.
func loopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// cleanPath turns a URL path into a name below a root. It refuses rather than repairs: no dot segments, no dotfiles, no
// backslashes, no empty segments, no bytes that mean something to a file system.
func cleanPath(p string) (string, bool) {
	if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\\\x00:") {
		return "", false
	}
	if p == "/" {
		return ".", true
	}
	p = strings.TrimSuffix(p[1:], "/")
	for segment := range strings.SplitSeq(p, "/") {
		if segment == "" || segment[0] == '.' {
			return "", false
		}
	}
	return p, fs.ValidPath(p)
}

// serveFile answers with a regular file of root, or reports false having written nothing.
func (s *site) serveFile(w http.ResponseWriter, r *http.Request, root *os.Root, name string) bool {
	// Stat before Open: opening a named pipe would wait for a writer.
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := root.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return false
	}
	etag := fmt.Sprintf("%x-%x", info.Size(), info.ModTime().UnixNano())
	ext := strings.ToLower(path.Ext(name))
	contentType := mimeTypes[ext]
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", s.policy(root, name))
	if hashedName.MatchString(name) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache") // keep it, but ask each time
	}
	if compressible(ext) {
		h.Add("Vary", "Accept-Encoding")
		// A range counts bytes of the file as it is, so it is never encoded.
		if encoding := negotiate(r.Header.Get("Accept-Encoding")); encoding != "" && r.Header.Get("Range") == "" {
			if file, made := encoded(root, name, info, encoding); file != nil {
				defer file.Close()
				h.Set("Content-Encoding", encoding)
				h.Set("Content-Length", fmt.Sprint(made.Size()))
				h.Set("ETag", `"`+etag+"-"+encoding+`"`)
				http.ServeContent(w, r, name, info.ModTime(), file)
				return true
			}
		}
	}
	h.Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, name, info.ModTime(), file)
	return true
}
