#!/bin/sh
# Builds the module of WebAssembly of the simd device: src/build.sh [FOLDER]. It needs clang-14 and lld-14; CLANG names
# another compiler. The module says in its "producers" section which clang made it, and TestModulesAreBuiltFromSource
# compares where that version is installed.
# Loop strength reduction hides constant offsets from loads, which then need an addition each.
set -eu
to=${1:-$(dirname "$0")/..}
to=$(cd "$to" && pwd)
cd "$(dirname "$0")"
build() {
	output=$1
	shift
	"${CLANG:-clang-14}" --target=wasm32 -msimd128 -mbulk-memory -matomics -mmutable-globals -O3 -ffp-contract=off \
		-fno-builtin -nostdlib -mllvm -disable-lsr -Wall -Wextra -Werror \
		-Wl,--no-entry -Wl,--stack-first -Wl,-z,stack-size=65536 -Wl,--strip-debug -Wl,--max-memory=4294967296 \
		-Wl,--import-memory -Wl,--shared-memory -Wl,--export=__stack_pointer "$@" -o "$to/$output" ./*.c
	chmod 644 "$to/$output" # no program
}
build plain.wasm
