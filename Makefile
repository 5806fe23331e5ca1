# The two commands: `make demo` builds and serves the page, `make test` installs
# what the tests need and runs them all.
GO ?= go
SHARED ?= ../shared
ADDR ?= 127.0.0.1:8080
TESTMODELS := $(CURDIR)/build/testmodels
GOWASM = node $(CURDIR)/web/test/gowasm.mjs
export FORETOKEN_TESTMODELS = $(TESTMODELS)

.PHONY: demo site wasm test test-full check unit native browser e2e fuzz testmodels deps web screenshots clean

demo: site
	$(GO) run ./cmd/devserver --addr $(ADDR)

# The built site is web/dist: static files that any server can serve.
site: web/node_modules/.package-lock.json
	cd web && npm run --silent build

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

deps:
	@sh scripts/install-test-deps.sh

testmodels: deps
	@sh scripts/testmodels.sh $(SHARED) $(TESTMODELS)

# Rules that hold at every commit.
check: web/node_modules/.package-lock.json
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@sh scripts/imports.sh
	$(GO) vet ./...
	GOOS=js GOARCH=wasm $(GO) vet ./...
	GOOS=js GOARCH=wasm $(GO) build -o /dev/null ./wasm
	cd web && npm run --silent typecheck

# Go tests on this machine: cpu and native devices, and whatever needs none.
native: testmodels
	FORETOKEN_REQUIRE_GPU=1 FORETOKEN_REQUIRE_NATIVE=1 $(GO) test -timeout 20m ./...

# The same packages as WebAssembly in Chromium, on WebGPU.
browser: testmodels web/node_modules/.package-lock.json
	FORETOKEN_REQUIRE_GPU=1 FORETOKEN_REQUIRE_WEBGPU=1 GOOS=js GOARCH=wasm $(GO) test -short -p 1 -timeout 20m \
		-exec "$(GOWASM)" ./spec ./webgpu/... ./models/... ./web/test/gowasm/...

# End to end: the built site, the dev server and Chromium.
e2e: deps site
	cd web && npm run --silent test:unit && npm run --silent e2e

FUZZTIME ?= 30s
fuzz:
	$(GO) test ./models/gguf -run '^$$' -fuzz '^FuzzOpen$$' -fuzztime $(FUZZTIME)
	$(GO) test ./models/tokenizer -run '^$$' -fuzz '^FuzzBPE$$' -fuzztime $(FUZZTIME)
	$(GO) test ./models/tokenizer -run '^$$' -fuzz '^FuzzSPM$$' -fuzztime $(FUZZTIME)

test: deps check native browser e2e fuzz

# Everything test leaves out for time: all prompts in the browser too.
test-full: test
	FORETOKEN_FULL=1 $(MAKE) e2e

screenshots: deps site
	cd web && FORETOKEN_SCREENSHOTS=1 npm run --silent e2e

clean:
	rm -rf build web/dist web/node_modules
