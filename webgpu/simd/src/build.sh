#!/bin/sh
# Builds the module of the simd device: src/build.sh [OUTPUT]. It needs clang and lld; the module says in its
# "producers" section which version made it, and TestModuleIsBuiltFromSource compares where that version is installed.
set -eu
cd "$(dirname "$0")"
clang --target=wasm32 -msimd128 -O3 -ffp-contract=off -fno-builtin -mbulk-memory -nostdlib -mllvm -disable-lsr -Wall -Wextra -Werror \
	-Wl,--no-entry -Wl,--stack-first -Wl,-z,stack-size=65536 -Wl,--strip-debug -Wl,--max-memory=4294967296 \
	-o "${1:-../kernels.wasm}" ./*.c
