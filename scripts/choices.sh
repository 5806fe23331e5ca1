#!/bin/sh
# Times the kernel families on Chromium's software adapter and writes what loading starts from there:
# models/llama/tune/choices.json. Run it when families change.
set -e
cd "$(dirname "$0")/.."
line=$(FORETOKEN_REQUIRE_GPU=1 GOOS=js GOARCH=wasm go test -exec "node $PWD/web/test/gowasm.mjs" \
	./models/llama -count=1 -v -run '^TestMeasureChoices$' -measure | sed -n 's/^choices //p')
[ -n "$line" ] || { echo "choices.sh: nothing was measured" >&2; exit 1; }
printf '[\n%s\n]\n' "$line" >models/llama/tune/choices.json
