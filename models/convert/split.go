package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// The metadata of every part of a split file.
const (
	keyNumber  = "split.no"            // of the part, from 0
	keyCount   = "split.count"         // of parts
	keyTensors = "split.tensors.count" // in all parts together
)

// part holds the fields of a part's file name.
type part struct {
	src           files.Source
	stem          string
	number, count int // from 1
}

// maxParts bounds the files of a model's weights.
const maxParts = safetensors.MaxShards

// parsePart reads a name of the form STEM-00001-of-00002.gguf.
func parsePart(name string) (p part, ok bool) {
	name, ok = strings.CutSuffix(baseName(name), ".gguf")
	at := len(name) - len("-00001-of-00002")
	if !ok || at < 1 || name[at] != '-' || name[at+6:at+10] != "-of-" {
		return part{}, false
	}
	number, err := strconv.ParseUint(name[at+1:at+6], 10, 32)
	count, err2 := strconv.ParseUint(name[at+10:], 10, 32)
	return part{stem: name[:at], number: int(number), count: int(count)}, err == nil && err2 == nil
}

// isPart reports whether the file is named as one of several.
func isPart(src files.Source) bool {
	p, ok := parsePart(src.Name())
	return ok && p.count > 1
}

// fileName returns the file name of part i.
func (p *part) fileName(i int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", p.stem, i, p.count)
}

// Siblings are the names of all parts of the split GGUF file that a file of this name is part of, with the same folder
// or URL before them; nil where the name is no part's.
func Siblings(name string) []string {
	p, ok := parsePart(name)
	if !ok || p.number < 1 || p.number > p.count || p.count > maxParts {
		return nil
	}
	base := baseName(name)
	i := strings.LastIndex(name, base)
	before, after := name[:i], name[i+len(base):]
	all := make([]string, p.count)
	for n := range all {
		all[n] = before + p.fileName(n+1) + after
	}
	return all
}

// CheckWhole refuses a file that is a part of a split one and was opened alone because it is not named as one.
func CheckWhole(f *gguf.File) error {
	n, err := f.Uint32Or(keyCount, 1)
	if err != nil {
		return err
	}
	if n > 1 {
		return fmt.Errorf("convert: %s is one of %d parts of a split file by its metadata: give it its own name back, "+
			"like model-00001-of-%05d.gguf, and put the others beside it", f.Name(), n, n)
	}
	return nil
}

// joinParts joins the parts of a split file, given in any order. Metadata comes from the first part, without the
// keys of splitting; tensors keep the order of the parts.
func joinParts(sources []files.Source) (*model, error) {
	parts, err := sortParts(sources)
	if err != nil {
		return nil, err
	}
	m := &model{name: parts[0].src.Name()}
	total, owner, arch := uint32(0), map[string]string{}, ""
	for i := range parts {
		p := &parts[i]
		name := p.src.Name()
		f, err := gguf.Open(p.src)
		if err != nil {
			return nil, err
		}
		n, err := p.check(f)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			total = n
			m.kv = slices.DeleteFunc(f.Metadata(), func(e gguf.KV) bool { return strings.HasPrefix(e.Key, "split.") })
			if arch, err = f.String("general.architecture"); err != nil {
				return nil, fmt.Errorf("convert: %s: the first part has no general.architecture: "+
					"it is not the beginning of a model, download it again", name)
			}
		}
		if n != total {
			return nil, fmt.Errorf("convert: %s: %s is %d, but %d in %s: the parts are of different models, "+
				"download them again", name, keyTensors, n, total, parts[0].src.Name())
		}
		if a, err := f.StringOr("general.architecture", arch); err != nil || a != arch {
			return nil, fmt.Errorf("convert: %s: general.architecture is %s, but %s in %s: the parts are of different "+
				"models, download them again",
				name, quote.Text(a), quote.Text(arch), parts[0].src.Name())
		}
		for j := range f.Tensors {
			t := f.Tensors[j].Name
			if first, twice := owner[t]; twice {
				return nil, fmt.Errorf("convert: %s: tensor %s is in %s too: the parts are of different models, "+
					"download them again", name, quote.Text(t), first)
			}
			owner[t] = name
		}
		m.add(f)
	}
	if uint64(len(m.tensors)) != uint64(total) {
		return nil, fmt.Errorf("convert: %s: %s is %d, but the %d parts have %d tensors together: "+
			"one of them is of another model, download them again",
			m.name, keyTensors, total, len(parts), len(m.tensors))
	}
	return m, nil
}

// sortParts puts the parts in order by their names, and says which are missing or too many.
func sortParts(sources []files.Source) ([]part, error) {
	first, ok := parsePart(sources[0].Name())
	var parts []part
	for _, src := range sources {
		p, is := parsePart(src.Name())
		if !ok || !is {
			return nil, fmt.Errorf("convert: %s and %s are not parts of one file, which are named like "+
				"model-00001-of-00003.gguf: choose one model",
				sources[0].Name(), differing(sources))
		}
		switch {
		case p.stem != first.stem || folder(src.Name()) != folder(sources[0].Name()):
			return nil, fmt.Errorf("convert: %s and %s are parts of different files: choose those of one",
				sources[0].Name(), src.Name())
		case p.count != first.count:
			return nil, fmt.Errorf("convert: %s is one of %d parts and %s one of %d: choose those of one split",
				sources[0].Name(), first.count, src.Name(), p.count)
		case p.count > maxParts:
			return nil, fmt.Errorf("convert: %s is one of %d parts; at most %d are read", src.Name(), p.count, maxParts)
		case p.number < 1 || p.number > p.count:
			return nil, fmt.Errorf("convert: %s: there is no part %d of %d: correct its name", src.Name(),
				p.number, p.count)
		}
		p.src = src
		parts = append(parts, p)
	}
	slices.SortStableFunc(parts, func(a, b part) int { return a.number - b.number })
	for i := 1; i < len(parts); i++ {
		if parts[i].number == parts[i-1].number {
			return nil, fmt.Errorf("convert: part %d of %d is given twice: %s and %s", parts[i].number, first.count,
				parts[i-1].src.Name(), parts[i].src.Name())
		}
	}
	if len(parts) < first.count {
		have := map[int]bool{}
		for i := range parts {
			have[parts[i].number] = true
		}
		var missing []string
		for n := 1; n <= first.count; n++ {
			if !have[n] {
				missing = append(missing, first.fileName(n))
			}
		}
		return nil, fmt.Errorf("convert: %s: %d of %d parts are missing: %s: put them beside it, or choose all parts",
			parts[0].src.Name(), len(missing), first.count, list(missing))
	}
	return parts, nil
}

// differing names a source that is no part, or else the second.
func differing(sources []files.Source) string {
	for _, src := range sources[1:] {
		if _, ok := parsePart(src.Name()); !ok {
			return src.Name()
		}
	}
	return sources[min(1, len(sources)-1)].Name()
}

// check compares a part's metadata with its name and returns the number of tensors of all parts.
func (p *part) check(f *gguf.File) (tensors uint32, err error) {
	for _, want := range []struct {
		key   string
		value int
		what  string
	}{{keyCount, p.count, "is one of %d parts by its metadata, of %d by its name"},
		{keyNumber, p.number - 1, "is part %d of its file by its metadata, part %d by its name"}} {
		if !f.Has(want.key) {
			return 0, fmt.Errorf("convert: %s: %s is missing: it is named like a part of a split file but is none; "+
				"rename it if it is whole", f.Name(), want.key)
		}
		got, err := f.Uint32(want.key)
		if err != nil {
			return 0, err
		}
		if int64(got) != int64(want.value) {
			by := int64(0)
			if want.key == keyNumber {
				by = 1 // people count from one, as the names do
			}
			return 0, fmt.Errorf("convert: %s "+want.what+": give it its own name back, or download it again", f.Name(),
				int64(got)+by, int64(want.value)+by)
		}
	}
	if tensors, err = f.Uint32(keyTensors); err != nil {
		return 0, err
	}
	return tensors, nil
}
