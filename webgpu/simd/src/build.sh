#!/bin/sh
# Builds the module of the simd device from one source twice, without threads and with them: src/build.sh [FOLDER].
# It needs clang-14 and lld-14; CLANG names another compiler. Each module says in its "producers" section which clang
# made it, and TestModulesAreBuiltFromSource compares where that version is installed.
# Loop strength reduction hides constant offsets from loads, which then need an addition each.
set -eu
to=${1:-$(dirname "$0")/..}
to=$(cd "$to" && pwd)
cd "$(dirname "$0")"
build() {
	output=$1
	shift
	"${CLANG:-clang-14}" --target=wasm32 -msimd128 -mbulk-memory -O3 -ffp-contract=off -fno-builtin -nostdlib \
		-mllvm -disable-lsr -Wall -Wextra -Werror \
		-Wl,--no-entry -Wl,--stack-first -Wl,-z,stack-size=65536 -Wl,--strip-debug -Wl,--max-memory=4294967296 \
		-Wl,--import-memory "$@" -o "$to/$output" ./*.c
}
build kernels.wasm &
build threads.wasm -matomics -mmutable-globals -Wl,--shared-memory -Wl,--export=__stack_pointer
wait $!
chmod 644 "$to/kernels.wasm" "$to/threads.wasm" # no programs
