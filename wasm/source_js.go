package main

import (
	"crypto/sha256"
	"fmt"
	"io"

	"foretoken"
	"foretoken/internal/files"
	"foretoken/models/convert"
	"foretoken/models/demo"

	"github.com/hack-pad/safejs"
)

// source is a model file that JavaScript reads: {name, size, read(offset, length) → Promise<Uint8Array>}.
type source struct {
	value safejs.Value
	name  string
	size  int64
}

var _ files.Source = (*source)(nil)

func newSource(v safejs.Value) (*source, error) {
	s := &source{value: v}
	name, err := v.Get("name")
	if err != nil {
		return nil, fmt.Errorf("foretoken: a model source: %w", err)
	}
	if s.name, err = name.String(); err != nil {
		return nil, fmt.Errorf("foretoken: a model source's name: %w", err)
	}
	size, err := v.Get("size")
	if err != nil {
		return nil, err
	}
	n, err := size.Float()
	if err != nil || n < 0 || n > 1<<52 {
		return nil, fmt.Errorf("foretoken: %s: the source has no usable size", s.name)
	}
	s.size = int64(n)
	return s, nil
}

func (s *source) Name() string { return s.name }
func (s *source) Size() int64  { return s.size }

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.size {
		return 0, io.EOF
	}
	short := off+int64(len(p)) > s.size
	if short {
		p = p[:s.size-off]
	}
	promise, err := s.value.Call("read", float64(off), len(p))
	if err != nil {
		return 0, fmt.Errorf("%s: reading %d bytes at %d: %w", s.name, len(p), off, err)
	}
	bytes, err := await(promise)
	if err != nil {
		return 0, err // the source's own message names the file
	}
	n, err := safejs.CopyBytesToGo(p, bytes)
	s.release(bytes)
	if err != nil {
		return 0, fmt.Errorf("%s: reading %d bytes at %d: %w", s.name, len(p), off, err)
	}
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// release gives an array back to its source, or its memory to the browser. Go holds on to JavaScript's values until
// it collects its own garbage, of which loading makes little: a load would hold all of the file.
func (s *source) release(array safejs.Value) {
	if f, err := s.value.Get("release"); err == nil && f.Type() == safejs.TypeFunction {
		_, _ = s.value.Call("release", array) // what is not given back is collected later
		return
	}
	buffer, err := array.Get("buffer")
	if err != nil {
		return
	}
	if transfer, err := buffer.Get("transfer"); err == nil && transfer.Type() == safejs.TypeFunction {
		_, _ = buffer.Call("transfer", 0) // detaches the array; what cannot be detached is collected later
	}
}

// sha256Of is SHA-256 as the browser computes it: Go takes 0.1 s for the first MiB of a model in WebAssembly.
func sha256Of(b []byte) [sha256.Size]byte {
	var sum [sha256.Size]byte
	found, err := hashInBrowser(b)
	if err != nil {
		return sha256.Sum256(b) // a page that is not secure has no crypto.subtle
	}
	if n, err := safejs.CopyBytesToGo(sum[:], found); err != nil || n < len(sum) {
		return sha256.Sum256(b)
	}
	return sum
}

func hashInBrowser(b []byte) (safejs.Value, error) {
	class, err := safejs.Global().Get("Uint8Array")
	if err != nil {
		return safejs.Value{}, err
	}
	bytes, err := class.New(len(b))
	if err != nil {
		return safejs.Value{}, err
	}
	if _, err := safejs.CopyBytesToJS(bytes, b); err != nil {
		return safejs.Value{}, err
	}
	crypto, err := safejs.Global().Get("crypto")
	if err != nil {
		return safejs.Value{}, err
	}
	subtle, err := crypto.Get("subtle")
	if err != nil {
		return safejs.Value{}, err
	}
	sum, err := awaitCall(subtle, "digest", "SHA-256", bytes)
	if err != nil {
		return safejs.Value{}, err
	}
	return class.New(sum)
}

// roles names what the files of the models are for. From firstOfHead on they are an EAGLE-3 head's, one file each.
var roles = []string{"target", "draft", "eagle3", "eagle3_config"}

const firstOfHead = 2

// modelSources holds the files that a session is opened with; all but the target may be missing.
type modelSources struct {
	target, draft, eagle3, eagle3Config files.Source
	calibrations                        []files.Source

	from  safejs.Value
	read  [][]files.Source // of each role, as JavaScript gave them
	again safejs.Value     // what from.again gave last, to be closed
}

// readSources reads {target, draft, eagle3, eagle3_config, calibrations}. Target and draft may be
// lists of files, which are read as one model.
func readSources(v safejs.Value, as convert.Options) (*modelSources, error) {
	o := &modelSources{from: v}
	for i, to := range []*files.Source{&o.target, &o.draft, &o.eagle3, &o.eagle3Config} {
		files, err := readFiles(v, roles[i])
		if err != nil {
			return o, err
		}
		o.read = append(o.read, files)
		switch {
		case len(files) == 0:
		case i < firstOfHead:
			if *to, err = convert.Open(files, as); err != nil {
				return o, err
			}
		case len(files) > 1:
			return o, fmt.Errorf("foretoken: open's sources: %s is %d files, want one", roles[i], len(files))
		default:
			*to = files[0]
		}
	}
	if o.target == nil {
		return o, fmt.Errorf("foretoken: open's sources have no target")
	}
	var err error
	o.calibrations, err = readFiles(v, "calibrations")
	return o, err
}

// reopen has JavaScript open the files again for a session that reloads its models. JavaScript closes them once a
// session is open.
func (o *modelSources) reopen() error {
	o.close()
	var err error
	if o.again, err = awaitCall(o.from, "again"); err != nil {
		return fmt.Errorf("foretoken: opening the models' files again: %w", err)
	}
	for i, role := range roles {
		files, err := readFiles(o.again, role)
		if err != nil {
			return err
		}
		if len(files) != len(o.read[i]) {
			return fmt.Errorf("foretoken: opening the models' files again: %s is %d files now, and was %d", role,
				len(files), len(o.read[i]))
		}
		for j, f := range files {
			if was := o.read[i][j]; was.Size() != f.Size() {
				return fmt.Errorf("foretoken: %s changed since it was loaded; open the models again", was.Name())
			}
			o.read[i][j].(*source).value = f.(*source).value
		}
	}
	return nil
}

// close closes what reopen opened.
func (o *modelSources) close() {
	if o.again.Type() == safejs.TypeObject {
		_, _ = o.again.Call("close")
	}
	o.again = safejs.Undefined()
}

// readFiles reads a field with a source or a list of them; none of null.
func readFiles(from safejs.Value, field string) ([]files.Source, error) {
	v, err := from.Get(field)
	if err != nil {
		return nil, fmt.Errorf("foretoken: open's sources: %w", err)
	}
	if v.IsNull() || v.IsUndefined() {
		return nil, nil
	}
	length, err := v.Get("length")
	if err != nil {
		return nil, fmt.Errorf("foretoken: a model source: %w", err)
	}
	if length.IsUndefined() {
		src, err := newSource(v)
		return []files.Source{src}, err
	}
	n, err := length.Int()
	if err != nil {
		return nil, fmt.Errorf("foretoken: a list of sources: %w", err)
	}
	files := make([]files.Source, n)
	for i := range files {
		s, err := v.Index(i)
		if err != nil {
			return nil, err
		}
		if files[i], err = newSource(s); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// mostCalibration exceeds the size in bytes of any calibration file.
const mostCalibration = 64 << 20

// fitted reads the built-in pair's calibrations, if it is open, and then the calibration files.
func (o *modelSources) fitted(builtin bool) (*foretoken.Calibrations, error) {
	c := &foretoken.Calibrations{}
	if builtin {
		for _, f := range demo.Calibrations() {
			if err := c.Parse(f.Name, f.Data); err != nil {
				return nil, err
			}
		}
	}
	for _, src := range o.calibrations {
		if src.Size() > mostCalibration {
			return nil, fmt.Errorf("foretoken: %s: %d bytes, which is no calibration file", src.Name(), src.Size())
		}
		data := make([]byte, src.Size())
		if _, err := src.ReadAt(data, 0); err != nil && err != io.EOF {
			return nil, err
		}
		if err := c.Parse(src.Name(), data); err != nil {
			return nil, err
		}
	}
	return c, nil
}
