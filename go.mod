module foretoken

go 1.26.8

require (
	github.com/andybalholm/brotli v1.1.1
	github.com/dlclark/regexp2 v1.11.4
	github.com/gomlx/gomlx v0.24.1
	github.com/gomlx/gopjrt v0.8.4
	github.com/hack-pad/safejs v0.1.0
	github.com/jedib0t/go-pretty/v6 v6.7.9
	github.com/klauspost/compress v1.17.11
	github.com/rajveermalviya/go-webgpu/wgpu v0.17.1
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.2
	github.com/schollz/progressbar/v3 v3.18.0
	github.com/spf13/cobra v1.8.1
	github.com/spf13/pflag v1.0.5
	github.com/x448/float16 v0.8.4
	golang.org/x/net v0.43.0
	golang.org/x/term v0.34.0
)

require (
	github.com/cpuguy83/go-md2man/v2 v2.0.4 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	golang.org/x/exp v0.0.0-20250819193227-8b4c13bb791b // indirect
	golang.org/x/sys v0.35.0 // indirect
	golang.org/x/text v0.28.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
	k8s.io/klog/v2 v2.130.1 // indirect
)

// gomlx asks for a later safejs through a module that nothing here builds.
exclude github.com/hack-pad/safejs v0.1.1
