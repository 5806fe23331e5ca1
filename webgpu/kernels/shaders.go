package kernels

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"foretoken/webgpu"
)

//go:embed *.wgsl
var shared embed.FS

// Constant is one `const` line of a kernel's prelude: uint32, float32 or bool.
type Constant struct {
	name  string
	value any
}

// Const makes a Constant. An int becomes a u32.
func Const(name string, value any) Constant {
	if n, ok := value.(int); ok {
		value = uint32(n)
	}
	return Constant{name, value}
}

// sources caches kernels by key: a model's programs use the same few hundreds of times, and unrolling a large
// one takes milliseconds.
var sources sync.Map // string → *webgpu.KernelSource

// directives are the lines of a shader that ask for features that only some devices have; rest are the others.
func directives(text string) (asking, rest string) {
	var others strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "enable ") || strings.HasPrefix(line, "requires ") {
			asking += line
		} else {
			others.WriteString(line)
		}
	}
	return asking, others.String()
}

// Shaders holds the .wgsl files of one package of kernels. Source joins them with the files of this package, which
// all kernels share: noise, unpacking, reductions.
type Shaders struct {
	name  string
	files embed.FS
}

// NewShaders returns the shaders that a package embeds. File names must differ from the shared files'.
func NewShaders(name string, files embed.FS) *Shaders { return &Shaders{name, files} }

// read returns the text of a file of the package or of a shared file, and its name in the names of kernels.
func (s *Shaders) read(file string) (name, text string) {
	if body, err := s.files.ReadFile(file + ".wgsl"); err == nil {
		return s.name + "/" + file, string(body)
	}
	body, err := shared.ReadFile(file + ".wgsl")
	if err != nil {
		// The files are embedded, so only a misspelled name fails.
		panic("kernels: " + s.name + ": no shader " + file)
	}
	return file, string(body)
}

// Source makes a kernel from .wgsl files, joined in order, and the constants of this specialisation. Equal files and
// constants must come with equal access and host: kernels are cached by the former.
func (s *Shaders) Source(files string, access []webgpu.Access, host Host, consts ...Constant) *webgpu.KernelSource {
	var values []byte // without fmt: a page makes some thousand kernels before its first token
	for _, c := range consts {
		values = append(append(append(values, ' '), c.name...), '=')
		switch v := c.value.(type) {
		case uint32:
			values = strconv.AppendUint(values, uint64(v), 10)
		case float32:
			values = strconv.AppendFloat(values, float64(v), 'g', -1, 32)
		case bool:
			values = strconv.AppendBool(values, v)
		default:
			panic(fmt.Sprintf("kernels: %s: constant %s has type %T", files, c.name, c.value))
		}
	}
	key := s.name + ": " + files + string(values)
	if made, ok := sources.Load(key); ok {
		return made.(*webgpu.KernelSource)
	}
	var names []string
	for _, file := range strings.Fields(files) {
		name, _ := s.read(file)
		names = append(names, name)
	}
	made := &webgpu.KernelSource{Name: strings.Join(names, " ") + string(values), Key: key,
		WGSL:     sync.OnceValue(func() string { return s.text(files, consts) }),
		Bindings: access, Reference: host.Ref, Entry: host.Entry, Words: host.Words}
	sources.Store(made.Key, made)
	return made
}

// text returns the WGSL of a specialisation: directives, constants, then the files with their loops unrolled.
func (s *Shaders) text(files string, consts []Constant) string {
	var prelude strings.Builder
	extensions := ""
	bounds := map[string]uint32{}
	for _, c := range consts {
		switch v := c.value.(type) {
		case uint32:
			bounds[c.name] = v
			fmt.Fprintf(&prelude, "const %s: u32 = %du;\n", c.name, v)
		case float32:
			fmt.Fprintf(&prelude, "const %s: f32 = %vf;\n", c.name, v)
		case bool:
			fmt.Fprintf(&prelude, "const %s: bool = %t;\n", c.name, v)
		}
	}
	for _, file := range strings.Fields(files) {
		_, text := s.read(file)
		text = unroll(text, bounds)
		if wg, ok := bounds["WG"]; ok { // wgpu-native 0.17 takes a literal here only
			text = strings.ReplaceAll(text, "@workgroup_size(WG)", fmt.Sprintf("@workgroup_size(%d)", wg))
		}
		asking, rest := directives(text)
		extensions += asking // directives come first
		prelude.WriteString(rest)
	}
	return extensions + prelude.String()
}
