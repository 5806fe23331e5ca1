package grammar

import (
	"strconv"
	"strings"
)

// uri is a URI reference in parts, without its fragment (RFC 3986, appendix B). The delimiters belong to the parts.
type uri struct{ scheme, authority, path, query string }

func cutURI(s string) (u uri) {
	s, _, _ = strings.Cut(s, "#")
	if i := strings.IndexAny(s, ":/?"); i > 0 && s[i] == ':' {
		u.scheme, s = s[:i+1], s[i+1:]
	}
	if i := strings.IndexByte(s, '?'); i >= 0 {
		s, u.query = s[:i], s[i:]
	}
	if strings.HasPrefix(s, "//") {
		end := len(s)
		if i := strings.IndexByte(s[2:], '/'); i >= 0 {
			end = i + 2
		}
		u.authority, s = s[:end], s[end:]
	}
	u.path = s
	return u
}

// resolve is a reference relative to a base (RFC 3986, section 5.2). Of a fragment, both may have one, the reference's
// stays.
func resolve(base, ref string) string {
	_, fragment, has := strings.Cut(ref, "#")
	if has {
		fragment = "#" + fragment
	}
	from, to := cutURI(base), cutURI(ref)
	if to.scheme != "" {
		return to.scheme + to.authority + withoutDots(to.path) + to.query + fragment
	}
	to.scheme = from.scheme
	if to.authority == "" {
		to.authority = from.authority
		switch {
		case to.path == "":
			to.path = from.path
			if to.query == "" {
				to.query = from.query
			}
		case to.path[0] != '/':
			if from.authority != "" && from.path == "" {
				from.path = "/"
			}
			to.path = from.path[:strings.LastIndexByte(from.path, '/')+1] + to.path
		}
	}
	return to.scheme + to.authority + withoutDots(to.path) + to.query + fragment
}

// withoutDots takes . and .. out of a path that begins with a slash (RFC 3986, section 5.2.4).
func withoutDots(path string) string {
	if !strings.HasPrefix(path, "/") {
		return path
	}
	var out []string
	all := strings.Split(path[1:], "/")
	for i, s := range all {
		last := i == len(all)-1
		switch {
		case s == "." || s == "..":
			if s == ".." && len(out) > 0 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

// decoded is a text without percent-encoding (RFC 3986, section 2.1). A percent sign that encodes nothing stays.
func decoded(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}
