#!/bin/sh
# Builds the modules of WebAssembly of the simd device: src/build.sh [FOLDER]. plain.wasm runs in every engine; in
# relaxed.wasm matrix products are of relaxed SIMD. It needs clang-16 and lld-16; CLANG names another compiler. The
# modules say in their "producers" section which clang made them, and TestModulesAreBuiltFromSource compares where that
# version is installed.
# Loop strength reduction hides constant offsets from loads, which then need an addition each.
set -eu
to=${1:-$(dirname "$0")/..}
to=$(cd "$to" && pwd)
cd "$(dirname "$0")"
clang=${CLANG:-clang-16}
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
compile() {
	output=$1
	shift
	"$clang" --target=wasm32 -msimd128 -mbulk-memory -matomics -mmutable-globals -O3 -ffp-contract=off -fno-builtin \
		-mllvm -disable-lsr -Wall -Wextra -Werror -c -o "$objects/$output.o" "$@"
}
link() {
	output=$1
	shift
	(cd "$objects" && "$clang" --target=wasm32 -nostdlib -Wl,--no-entry -Wl,--stack-first -Wl,-z,stack-size=65536 \
		-Wl,--strip-debug -Wl,--max-memory=4294967296 -Wl,--import-memory -Wl,--shared-memory \
		-Wl,--export=__stack_pointer -o "$to/$output" "$@")
	chmod 644 "$to/$output" # no program
}
others=""
for file in *.c; do
	[ "$file" = matmul.c ] || others="$others ${file%.c}.o"
	compile "${file%.c}" "$file" &
done
compile relaxed matmul.c -mrelaxed-simd
wait
# shellcheck disable=SC2086
link plain.wasm $others matmul.o
# shellcheck disable=SC2086
link relaxed.wasm $others relaxed.o
