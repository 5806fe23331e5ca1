package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
)

// clientOf returns whose turn a request takes: its address's and, of that, its user's. Requests that name no user are
// one user a connection.
func clientOf(r *http.Request, user string) client {
	c := client{address: addressOf(r.RemoteAddr), user: short(user)}
	if user == "" {
		c.connection, _ = r.Context().Value(connection{}).(uint64) // 0 for one that did not come from Listen
	}
	return c
}

// ownerOf returns who a request belongs to: its user, or "" for all that name none. What a session keeps of a request
// serves its owner's next ones only, because the time of an answer tells others how a prompt begins.
func (s *Server) ownerOf(user string) string {
	if s.config.ShareCache {
		return ""
	}
	return short(user)
}

// short keeps the memory of names small, which may have megabytes: of a long one it returns the hash.
func short(name string) string {
	if len(name) <= 2*sha256.Size {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}
