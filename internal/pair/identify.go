package pair

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"foretoken/internal/files"
	"foretoken/spec"
)

// hashed is the number of bytes at each end of a file that go into its hash: the header, with the configuration,
// the vocabulary and every tensor's name and shape, and some weights. A hash of all bytes would have to fetch the
// complete file where weights come over a network.
const (
	hashedHead = 1 << 20
	hashedTail = 1 << 16
)

// Identify names a model file by its size and a SHA-256 over its size, its first MiB and its last 64 KiB. hash computes
// the SHA-256; nil: crypto/sha256. A model without a name is called by its file's.
func Identify(src files.Source, name, quantisation string, hash func([]byte) [sha256.Size]byte) (spec.ModelID, error) {
	size := src.Size()
	head := min(size, hashedHead)
	tail := max(head, size-hashedTail)
	text := fmt.Appendln(nil, size)
	at := int64(len(text))
	text = append(text, make([]byte, head+size-tail)...)
	for _, part := range []struct{ from, to int64 }{{0, head}, {tail, size}} {
		b := text[at : at+part.to-part.from]
		at += int64(len(b))
		if n, err := src.ReadAt(b, part.from); n < len(b) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return spec.ModelID{}, fmt.Errorf("pair: %s: bytes %d to %d, to tell the file by: %w", src.Name(),
				part.from, part.to, err)
		}
	}
	if name == "" {
		name = src.Name()
	}
	if hash == nil {
		hash = sha256.Sum256
	}
	sum := hash(text)
	return spec.ModelID{Name: name, Bytes: size, Hash: hex.EncodeToString(sum[:16]), Quantisation: quantisation}, nil
}
