# The two commands: `make demo` builds and serves the page, `make test` installs
# what the tests need and runs them all.
GO ?= go
SHARED ?= ../shared
ADDR ?= 127.0.0.1:8080
TESTMODELS := $(CURDIR)/build/testmodels
GOWASM = node $(CURDIR)/web/test/gowasm.mjs
GOTEST = GO="$(GO)" node scripts/gotest.mjs
# llama.cpp on the CPU and on Vulkan.
LLAMA_VERSION = 3.22.1
LLAMA = $(addsuffix @$(LLAMA_VERSION),node-llama-cpp @node-llama-cpp/linux-x64 @node-llama-cpp/linux-x64-vulkan)
LLAMA_INSTALLED = build/llama/$(LLAMA_VERSION)
# Empty if ../shared is missing; the results that go test caches depend on the value.
export FORETOKEN_SHARED := $(realpath $(SHARED))

.PHONY: report docs-reports demo site package release settings wasm test test-full check unit native browser e2e \
	docs-test fuzz soak race audit sbom oracles testmodels largemodels deps web screenshots recording recorded picture \
	pictures bench-auto bench-first bench-visits bench-peers examples lighthouse gpu-audit clean

# CORS=1 lets pages of other ports of this machine embed it.
demo: site
	$(GO) run ./cmd/devserver --addr $(ADDR) $(if $(CORS),--cors)

# The built site is web/dist: static files that any server can serve. ADDRESS=https://HOST/PATH/ names its picture for
# previews of links.
site: web/node_modules/.package-lock.json web/docs/node_modules/.package-lock.json
	cd web && npm run --silent build -- $(if $(ADDRESS),--address=$(ADDRESS))
	cd web/docs && npm run --silent build

# The npm package: build/foretoken-VERSION.tgz.
package: site
	@mkdir -p build
	cd web && npm pack --silent --pack-destination ../build

# What a release publishes, in build/release: make release REPOSITORY=https://HOST/OWNER/NAME
release: package
	node scripts/release.mjs $(REPOSITORY)

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

web/docs/node_modules/.package-lock.json: web/docs/package.json web/docs/package-lock.json
	cd web/docs && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

deps:
	@sh scripts/install-test-deps.sh

testmodels: deps
	@sh scripts/testmodels.sh $(SHARED) $(TESTMODELS)

# Models of the size that people run, four gigabytes.
largemodels: export ALL = 1
largemodels: testmodels
	@[ -f $(TESTMODELS)/x1b-q8_0.gguf ] || /usr/bin/python3 scripts/largemodels.py $(SHARED) $(TESTMODELS)

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Rules that hold at every commit.
check: web/node_modules/.package-lock.json
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || \
		{ echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }
	@sh scripts/imports.sh
	$(GO) vet ./...
	GOOS=js GOARCH=wasm $(GO) vet ./...
	@node web/wasm.mjs
	@staticcheck=$$(GO="$(GO)" sh scripts/tool.sh $(STATICCHECK)) && $$staticcheck ./... && \
		GOOS=js GOARCH=wasm $$staticcheck ./...
	$(GO) run ./cmd/gpuaudit lint
	$(GO) test -vet=off -run '^TestNoListIsSearchedPerItem$$' ./models/fuzztest
	cd web && npm run --silent typecheck
	@node --test --test-reporter=dot scripts/*.test.mjs web/test/structure.test.mjs
	@node scripts/reports.mjs check
	@node scripts/settings.mjs check

# Go tests on this machine: the cpu and native devices, and tests without a device.
native: testmodels
	@FORETOKEN_REQUIRE_GPU=1 $(GOTEST) native -vet=off -timeout 60m ./...

# What computes on a device, as WebAssembly in Chromium, on WebGPU; and the bits of the cpu device in other engines.
# native and test-full test the packages that are the same Go in every build.
RUNS = ./models/graph ./models/kv ./models/runner ./models/tune
BROWSER = ./webgpu/... $(RUNS) ./web/test/gowasm/...
browser: testmodels web/node_modules/.package-lock.json
	@FORETOKEN_REQUIRE_GPU=1 GOOS=js GOARCH=wasm $(GOTEST) browser -vet=off -short -p 1 -timeout 60m \
		-exec "$(GOWASM)" $(BROWSER)
	@for engine in firefox webkit; do GOOS=js GOARCH=wasm $(GOTEST) $$engine -vet=off -short -run '^TestBits$$' \
		-exec "$(GOWASM) --browser=$$engine" ./webgpu/simd || exit 1; done

# End to end: the built site, the dev server and Chromium.
e2e: testmodels package
	cd web && npm run --silent test:unit && npm run --silent e2e -- --jobs=2

# Tries every command and every piece of code in README.md and docs/*.md, the built documentation in Chromium, and the
# npm package in the bundlers that its README names.
docs-test: deps package
	cd web/docs && npm run --silent test

# Rewrites the tables and figures of the documentation from docs/reports.
docs-reports:
	@node scripts/reports.mjs write

# Rewrites what is made of the table of settings: the type of requests in TypeScript and the documentation's tables.
settings:
	@node scripts/settings.mjs write

# Measures a report of docs/reports again, by the command that it holds: make report REPORT=methods; without REPORT all
# that need no GPU, which takes an hour. A new one: make report REPORT=small COMMAND='foretoken bench --json {} …'
report: export PROMPTS = $(CURDIR)/testdata/prompts-go.jsonl
report: export MODELS = $(TESTMODELS)
report: export ALL = 1
report: testmodels site web/peers/node_modules/.package-lock.json web/quality/node_modules/.package-lock.json \
		$(if $(filter gpu-llama peers-native schemas tokenizers,$(or $(REPORT),peers-native)),$(LLAMA_INSTALLED)) \
		$(if $(filter peers-native,$(or $(REPORT),peers-native)),largemodels)
	$(GO) build -o build/foretoken ./cmd/foretoken
	node scripts/reports.mjs make $(REPORT) $(if $(COMMAND),-- '$(COMMAND)')
	@$(MAKE) --no-print-directory docs-reports

# Writes the references of models/modeltest again, by numpy and by llama.cpp: all, or that of ONLY=exaone4-f32.
oracles: $(LLAMA_INSTALLED)
	$(GO) test -vet=off ./models/modeltest -run '^TestUpdate$$' -update $(if $(ONLY),-only $(ONLY))

# Compiles every kernel that a GPU can be given by the compilers of GPUs that need not be there, of Debian's Mesa and of
# its backports': docs/reports/gpu-audit*. make test compiles a part of them. Then llama.cpp's shaders.
gpu-audit: testmodels $(LLAMA_INSTALLED)
	node scripts/reports.mjs make gpu-audit
	node scripts/reports.mjs make gpu-audit-mesa25
	node scripts/reports.mjs make gpu-llama
	@$(MAKE) --no-print-directory docs-reports

# Searches for inputs that break a bound, FUZZTIME runs a target, as many targets side by side as there are processors.
# make test runs the inputs that are kept, which give the same result each time. A number of runs, because Go reports a
# run that its time limit interrupts as a failure (context deadline exceeded). The long form, 10 million runs each:
# make fuzz FUZZTIME=10000000x
FUZZTIME ?= 10000x
FUZZJOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ := $(shell grep -ro --include='*_test.go' --exclude-dir=node_modules --exclude-dir=build \
	'^func Fuzz[A-Za-z0-9]*' . | \
	sed 's|^\./\([^/]*_test\.go\)|././\1|; s|^\./||; s|/[^/]*_test\.go:func |:|')
FUZZPROGRAMS := $(sort $(foreach t,$(FUZZ),build/fuzz/$(subst /,_,$(firstword $(subst :, ,$t))).test))
fuzz:
	@mkdir -p build/fuzz
	@$(MAKE) --no-print-directory -j2 $(FUZZPROGRAMS)
	@$(MAKE) --no-print-directory -j$(FUZZJOBS) $(addprefix fuzz/,$(FUZZ))

# Compiles in the fuzzer's counters where they say what an input reaches. Go knows better than make whether anything has
# changed.
.PHONY: $(FUZZPROGRAMS)
$(FUZZPROGRAMS):
	@$(GO) test -c -vet=off -fuzz=. -toolexec="sh $(CURDIR)/scripts/fuzztool.sh" -o $@ \
		./$(subst _,/,$(basename $(notdir $@)))

fuzz/%:
	@sh scripts/fuzz.sh $* $(FUZZTIME)

# Two at a time, in this order: native and browser keep little more than one core busy each, e2e two, so it comes last.
# check vets all code.
test: deps
	@$(MAKE) --no-print-directory -j2 --output-sync=target check native browser docs-test e2e
	@cat build/notrun/* | sort -u

# What takes too long for every commit: 64 clients on the endpoint for five minutes, a thousand turns with two hundred
# thousand tokens and a thousand aborts, natively and in Chromium, a hundred thousand messages to the worker. make soak
# SOAK=0.1 does a tenth of it.
soak: export FORETOKEN_SOAK = $(SOAK)
soak: export FORETOKEN_REQUIRE_GPU = 1
SOAK ?= 1
soak: testmodels site
	$(GO) test -count=1 -timeout 60m -v ./cmd/foretoken -run '^TestLoad$$'
	$(GO) test -count=1 -timeout 3h -v . -run '^Test(LongLife|OpenedAndClosed|Aborts)'
	cd web && node test/soak.mjs
	$(GO) test -count=1 -timeout 60m -v . -run '^Test(LostAt|LostWhile|HungAt|NoMemoryAt)'
	cd web && npm run --silent test:unit

# Every package under the race detector: three quarters of an hour. The detector allocates beside the program, so tests
# of memory are left out.
race: deps testmodels
	$(GO) test -race -short -timeout 60m ./cmd/devserver ./cmd/foretoken/serve ./openai ./wasm ./spec/... \
		./webgpu/simd ./webgpu/open ./webgpu/internal/... ./internal/... ./models/demo ./models/quant \
		./models/chat/... ./models/grammar ./models/safetensors ./models/arch ./models/constrain ./models/tokenizer
	$(GO) test -race -short -timeout 60m ./models/gguf ./models/convert -skip Memory
	FORETOKEN_REQUIRE_GPU=1 $(GO) test -race -short -timeout 90m ./webgpu/native ./webgpu/kernels/... \
		$(RUNS) ./cmd/foretoken ./bench ./fit .

# Advisories published for what this is built from; UNREACHED=allow lets it pass where their databases cannot be read.
audit:
	@GO="$(GO)" UNREACHED="$(UNREACHED)" sh scripts/audit.sh

# What this is built from: build/sbom.json, in the format of CycloneDX.
CYCLONEDX_GOMOD = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
sbom:
	@gomod=$$(GO="$(GO)" sh scripts/tool.sh $(CYCLONEDX_GOMOD)) && node scripts/sbom.mjs $$gomod

# What test leaves out for time: all prompts at all temperatures, every combination of kernels, in the browser too.
test-full: test
	FORETOKEN_FULL=1 FORETOKEN_REQUIRE_GPU=1 $(GO) test -vet=off -timeout 60m -count=1 -run EqualsPlain .
	FORETOKEN_FULL=1 $(GO) test -vet=off -count=1 ./cmd/examples
	FORETOKEN_FULL=1 FORETOKEN_REQUIRE_GPU=1 $(GO) test -vet=off -timeout 60m -count=1 \
		./webgpu/kernels/... $(RUNS)
	FORETOKEN_FULL=1 FORETOKEN_REQUIRE_GPU=1 GOOS=js GOARCH=wasm \
		$(GO) test -vet=off -short -p 1 -timeout 60m -count=1 -exec "$(GOWASM)" ./webgpu/kernels/... $(RUNS)
	GOOS=js GOARCH=wasm $(GO) test -vet=off -timeout 60m -count=1 -exec "$(GOWASM)" ./spec/...
	GOOS=js GOARCH=wasm $(GO) test -vet=off -short -p 1 -timeout 60m -count=1 -exec "$(GOWASM)" ./models/...
	CC=aarch64-linux-gnu-gcc CGO_ENABLED=1 GOARCH=arm64 $(GO) test -vet=off -short -timeout 60m -count=1 \
		-run '^TestBits$$/(neon|dotprod)' -exec "qemu-aarch64 -L /usr/aarch64-linux-gnu" ./webgpu/simd
	FORETOKEN_FULL=1 $(MAKE) e2e
	FORETOKEN_FULL=1 node --test web/test/bundlers.mjs
	$(MAKE) fuzz

# `auto` against plain decoding in Chromium, beside what measured costs allow. It takes half an hour, and the same
# command goes on where it was stopped: make bench-auto AUTO="--seconds 200 --prompts 10"
bench-auto: export ALL = 1
bench-auto: testmodels site
	cd web && node test/auto.mjs $(AUTO)

# What a visitor has: the first replies in fresh profiles; FIRST='--profiles 3 --devices cpu' chooses.
bench-first: export ALL = 1
bench-first: testmodels site
	cd web && node test/first.mjs $(FIRST)

# What a visitor sees first: the page's first Generate and Compare in fresh profiles; VISITS='--profiles 3' chooses.
bench-visits: export ALL = 1
bench-visits: testmodels site
	cd web && node test/visits.mjs $(VISITS)

# The pictures of the page in the documentation: docs/page-*.png.
screenshots: deps site
	cd web && node test/screenshots.mjs ../docs

# Chooses the page's examples and records the runs of its first view and its playground: models/demo/examples.json,
# web/recorded.trace, web/src/playground/recorded.
recorded:
	$(GO) run ./cmd/examples

# The pictures of docs/how-it-works.md, of the recorded runs and the reports of costs.
pictures: deps web/docs/node_modules/.package-lock.json
	node web/docs/pictures.mjs

# The picture of link previews, of the page's recording.
picture: deps site
	cd web && node test/picture.mjs

# The page's first screen, for the README; needs img2webp, of Debian's package webp.
recording: deps site
	cd web && node test/recording.mjs ../docs/first-screen.webp

# docs/examples built by their own tools, and their pages used in Chromium; EXAMPLES='plain vitepress' chooses.
examples: export EXAMPLES ?= all
examples: deps site
	cd web && node --test test/examples.mjs

# Page quality of the built page and of a page with the widget, as Lighthouse has it.
lighthouse: deps site web/quality/node_modules/.package-lock.json
	node web/quality/lighthouse.mjs

web/quality/node_modules/.package-lock.json: web/quality/package.json web/quality/package-lock.json
	cd web/quality && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Beside other engines: in Chromium, in Firefox and natively, on Linux. PEERS='--engines ours-1,wllama-1 --tokens 64'
# chooses, PEERS=--help lists.
bench-peers: export ALL = 1
bench-peers: deps site testmodels web/peers/node_modules/.package-lock.json $(LLAMA_INSTALLED)
	$(GO) build -o build/foretoken ./cmd/foretoken
	node web/peers/bench.mjs $(PEERS)

$(LLAMA_INSTALLED):
	npm install --prefix build/llama --no-save --omit=optional --ignore-scripts --no-audit --no-fund \
		--loglevel=error $(LLAMA)
	@touch $@

web/peers/node_modules/.package-lock.json: web/peers/package.json web/peers/package-lock.json
	cd web/peers && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

clean:
	rm -rf build web/dist web/lib web/LICENSE web/NOTICE web/node_modules web/docs/node_modules
