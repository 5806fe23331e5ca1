// Package gguf reads and writes GGUF files, versions 2 and 3, little-endian: one file that holds a model's
// configuration, tokenizer and weights. The format is described in ggml's docs/gguf.md.
//
// A file is read by ranges, so that opening a model of many gigabytes over a network fetches its
// header only. A file may come from anywhere, so every length and count in it is checked against the size of the
// file before memory is allocated for it: opening a file never takes more than its own size and a few megabytes of
// memory. Errors are one line, start with "gguf:" and name the file, the field and the reason.
package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"foretoken/internal/files"
	"foretoken/internal/quote"
)

// Bounds far above any published file. They keep the memory of Go's own
// bookkeeping (headers of strings, map entries) small beside the file.
const (
	maxDims     = 4
	maxKeys     = 1 << 16
	maxTensors  = 1 << 16
	maxKeyBytes = 1<<16 - 1 // the format's own limit
	maxName     = 255       // of a tensor; ggml itself stops at 64
	maxMetadata = 256 << 20 // bytes before the tensor data
	maxAlign    = 1 << 20
)

// TensorInfo says where a tensor lies and how it is stored.
type TensorInfo struct {
	Name   string
	Dims   []uint64 // GGUF's order: Dims[0] is the length of a row, contiguous in memory
	Type   Type
	Offset int64 // of the first byte, from the start of the file
	Size   int64 // bytes
}

// Elements is the product of the dimensions.
func (t *TensorInfo) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// File is an opened GGUF file. It is safe for concurrent use if its source is.
type File struct {
	Version   uint32
	Tensors   []TensorInfo // in the file's order
	DataStart int64        // where tensor data begins
	src       files.Source
	order     []string // metadata keys in the file's order
	values    map[string]value
	byName    map[string]int // index into Tensors
	prism     bool           // it has keys of Prism, whose fork of llama.cpp shares the number of PTQ1_0 with others

	// Origins holds the names of tensors in the file that this one is computed from, by those in this one; may be nil.
	Origins map[string]string
}

// Name is the name of the file's source.
func (f *File) Name() string { return f.src.Name() }

// Size returns the size of the file in bytes.
func (f *File) Size() int64 { return f.src.Size() }

// Open reads the header, the metadata and the list of tensors, but no tensor.
func Open(src files.Source) (*File, error) {
	if src.Size() < 0 {
		return nil, fmt.Errorf("gguf: %s: the size is unknown", src.Name())
	}
	f, c := read(src, false)
	if c.err != nil {
		return nil, c.err
	}
	return f, nil
}

// Survey reads as much of a header as it can, to show what a file is that Open refuses: it takes tensors of unknown
// types, whose Size is 0, and those whose data is missing or out of place, and stops where the header cannot be read.
// The result is nil for what is no GGUF file of a known version. Read no tensor of it.
func Survey(src files.Source) *File {
	if f, _ := read(src, true); f.Version != 0 {
		return f
	}
	return nil
}

// read reads a header up to the first error, which the cursor holds.
func read(src files.Source, survey bool) (*File, *cursor) {
	c := &cursor{survey: survey, src: src, size: uint64(src.Size()), chunk: firstRead, field: "header"}
	f := &File{src: src, values: map[string]value{}, byName: map[string]int{}}
	c.checkMagic()
	f.Version = c.u32()
	if c.checkVersion(f.Version); c.err != nil {
		f.Version = 0
	}
	tensors, keys := c.u64(), c.u64()
	// The smallest metadata entry takes 14 bytes, the smallest tensor 33.
	c.checkCount("metadata entries", keys, maxKeys, 14)
	c.checkCount("tensors", tensors, maxTensors, 33)
	for i := uint64(0); i < keys && c.err == nil; i++ {
		f.readEntry(c, i)
	}
	align := f.alignment(c)
	for i := uint64(0); i < tensors && c.err == nil; i++ {
		f.readTensorInfo(c, i, align)
	}
	if c.err == nil {
		f.place(c, align)
	}
	return f, c
}

// checkMagic names the kinds of files that people pass by mistake.
func (c *cursor) checkMagic() {
	if c.size < 4 {
		c.fail("%d bytes are too few for a GGUF file: download it again", c.size)
		return
	}
	head := slices.Clone(c.peek(int(min(c.size, 24))))
	if c.err != nil {
		return
	}
	text := asciiLower(head)
	switch {
	case string(head[:4]) == "GGUF":
		c.skip(4)
	case strings.HasPrefix(text, "version https://git-lf"):
		c.fail("this is a Git LFS pointer, not a model: fetch the file itself with git lfs pull")
	case strings.HasPrefix(text, "<!doctype") || strings.HasPrefix(text, "<html"):
		c.fail("this is a web page, not a model: use the address of the file itself")
	case strings.HasPrefix(text, "pk\x03\x04"):
		c.fail("this is a zip archive or a PyTorch checkpoint, not a GGUF file: take a GGUF or safetensors file " +
			"of the model")
	case slices.Contains([]string{"ggml", "ggjt", "ggla", "lmgg", "tjgg", "fmgg"}, text[:4]):
		c.fail("this is a model in a format older than GGUF: take a GGUF file of it")
	case len(head) >= 9 && head[8] == '{':
		c.fail("this looks like safetensors, not GGUF: name it so, and keep config.json and " +
			"tokenizer.json beside it")
	default:
		c.fail("wrong magic %q, want \"GGUF\": this is no GGUF file", head[:4])
	}
}

// asciiLower keeps the length: strings.ToLower folds some runes of several bytes
// to one byte ("İ" to "i"), and the result is cut at fixed places.
func asciiLower(b []byte) string {
	out := slices.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + ('a' - 'A')
		}
	}
	return string(out)
}

func (c *cursor) checkVersion(v uint32) {
	switch {
	case v == 2 || v == 3:
	case v&0xffff == 0 && v != 0:
		c.fail("the file is big-endian (version %#x): take a little-endian file of "+
			"the model", v)
	default:
		c.fail("version %d, this reader knows 2 and 3: take another file of the model", v)
	}
}

func (c *cursor) checkCount(what string, n, limit, each uint64) {
	switch {
	case c.err != nil:
	case n > limit:
		c.fail("%d %s, at most %d are allowed: the file is damaged, download it again", n, what, limit)
	case n > c.left()/each && !c.survey:
		c.fail("%d %s do not fit in the %d bytes left: the file is truncated or damaged, download it again", n,
			what, c.left())
	}
}

func (f *File) readEntry(c *cursor, i uint64) {
	c.field = fmt.Sprintf("metadata entry %d", i)
	key, ok := readName(c, "key", "", maxKeyBytes, f.values)
	if !ok {
		return
	}
	v := c.value()
	if c.err == nil && c.pos > maxMetadata {
		c.fail("the metadata takes more than %d MiB", maxMetadata>>20)
	}
	if c.err != nil {
		return
	}
	f.order = append(f.order, key)
	f.prism = f.prism || strings.HasPrefix(key, "prism.")
	f.values[key] = v
}

// readName reads the key or the name of an entry that is not known yet, and puts it into messages after prefix.
func readName[T any](c *cursor, what, prefix string, limit uint64, known map[string]T) (name string, ok bool) {
	if name = c.str(limit); c.err != nil {
		return "", false
	}
	if name == "" || !utf8.ValidString(name) {
		c.fail("the %s %s is empty or not UTF-8", what, quote.Text(name))
		return "", false
	}
	c.field = prefix + quote.Text(name)
	if _, dup := known[name]; dup {
		c.fail("the %s occurs twice", what)
	}
	return name, c.err == nil
}

func (f *File) alignment(c *cursor) uint64 {
	const key = "general.alignment"
	if c.err != nil || !f.Has(key) {
		return 32
	}
	a, err := f.Uint32(key)
	if err != nil {
		c.err = err
		return 32
	}
	if a == 0 || a&(a-1) != 0 || a > maxAlign {
		c.field = key
		c.fail("%d is not a power of two up to %d", a, maxAlign)
	}
	return uint64(a)
}

// readTensorInfo reads one entry; Offset is still relative to the data.
func (f *File) readTensorInfo(c *cursor, i, align uint64) {
	c.field = fmt.Sprintf("tensor %d", i)
	name, ok := readName(c, "name", "tensor ", maxName, f.byName)
	if !ok {
		return
	}
	n := c.u32()
	if c.err == nil && (n == 0 || n > maxDims) {
		c.fail("%d dimensions, want 1 to %d", n, maxDims)
		return
	}
	b := c.peek(int(n)*8 + 12)
	if b == nil {
		return
	}
	dims := make([]uint64, n)
	for d := range dims {
		dims[d] = binary.LittleEndian.Uint64(b[d*8:])
	}
	typ := Type(binary.LittleEndian.Uint32(b[n*8:]))
	off := binary.LittleEndian.Uint64(b[n*8+4:])
	c.skip(len(b))
	size, err := tensorBytes(typ, dims)
	switch {
	case c.survey:
	case !typ.Known() || typ == PTQ1_0 && !f.prism:
		c.fail("%s", typ.refusal())
	case err != nil:
		c.fail("%w", err)
	case off%align != 0:
		c.fail("offset %d is not a multiple of the alignment %d", off, align)
	case off > c.size || size > c.size-off && typ != Q2_0: // place looks closer at the blocks of Q2_0
		c.fail("%d bytes at offset %d reach beyond the end of the file of %d bytes: it is truncated, download it again",
			size, off, c.size)
	}
	if c.err == nil {
		f.byName[name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, TensorInfo{name, dims, typ, int64(off), int64(size)})
	}
}

// place turns relative offsets into absolute ones and refuses tensors that reach past the end or lie over each other.
func (f *File) place(c *cursor, align uint64) {
	start := (c.pos + align - 1) &^ (align - 1)
	if start > math.MaxInt64 {
		c.fail("the data starts beyond the end of the file")
		return
	}
	f.DataStart = int64(start)
	if c.survey {
		for i := range f.Tensors {
			f.Tensors[i].Offset += f.DataStart
		}
		return
	}
	byOffset := make([]int, len(f.Tensors))
	for i := range f.Tensors {
		byOffset[i] = i
		f.Tensors[i].Offset += f.DataStart
	}
	slices.SortStableFunc(byOffset, func(a, b int) int { return cmp.Compare(f.Tensors[a].Offset, f.Tensors[b].Offset) })
	for i, k := range byOffset {
		t, end, next := &f.Tensors[k], int64(c.size), ""
		if i+1 < len(byOffset) {
			after := &f.Tensors[byOffset[i+1]]
			end, next = min(end, after.Offset), after.Name
		}
		if room := end - t.Offset; t.Size <= room {
			continue
		} else if c.field = "tensor " + quote.Text(t.Name); t.early(room, int64(align)) {
			c.fail("its Q2_0 blocks have 128 weights, as in early files of Prism; take the model's file in PQ2_0 or " +
				"Q2_0_g64")
		} else if end == int64(c.size) {
			c.fail("%d bytes from byte %d of a file of %d: it is truncated, download it again", t.Size, t.Offset,
				c.size)
		} else {
			c.field = "tensor " + quote.Text(next)
			c.fail("its data lies over that of tensor %s: the file is damaged", quote.Text(t.Name))
		}
		return
	}
}

// early reports whether a tensor of Q2_0 has the blocks of Prism's first files, 128 weights in 34 bytes: they fill the
// room up to what follows, except for padding of less than align.
func (t *TensorInfo) early(room, align int64) bool {
	spare := room - t.Size/36*34
	return t.Type == Q2_0 && t.Dims[0]%128 == 0 && 0 <= spare && spare < align
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (*TensorInfo, error) {
	i, ok := f.byName[name]
	if !ok {
		return nil, fmt.Errorf("gguf: %s: tensor %s is missing: the file is incomplete or of another architecture",
			f.Name(), quote.Text(name))
	}
	return &f.Tensors[i], nil
}

// HasTensor reports whether the file has a tensor of that name.
func (f *File) HasTensor(name string) bool { _, ok := f.byName[name]; return ok }

// ReadTensor fills dst with the stored bytes of a tensor from byte off of it.
func (f *File) ReadTensor(t *TensorInfo, dst []byte, off int64) error {
	if off < 0 || off > t.Size || int64(len(dst)) > t.Size-off {
		return fmt.Errorf("gguf: %s: tensor %s: bytes %d to %d of %d", f.Name(), quote.Text(t.Name), off,
			off+int64(len(dst)), t.Size)
	}
	if err := files.ReadFull(f.src, dst, t.Offset+off); err != nil {
		return fmt.Errorf("gguf: %s: tensor %s: %w", f.Name(), quote.Text(t.Name), err)
	}
	return nil
}
