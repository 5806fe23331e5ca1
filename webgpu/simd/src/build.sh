#!/bin/sh
# Builds the module of the simd device: src/build.sh [OUTPUT]. It needs clang and lld; the module says in its
# "producers" section which version made it, and TestModuleIsBuiltFromSource compares where that version is installed.
# Loop strength reduction hides constant offsets from loads, which then need an addition each.
set -eu
cd "$(dirname "$0")"
clang --target=wasm32 -msimd128 -O3 -ffp-contract=off -fno-builtin -mbulk-memory -nostdlib -Wall -Wextra -Werror \
	-Wl,--no-entry -Wl,--stack-first -Wl,-z,stack-size=65536 -Wl,--strip-debug -Wl,--max-memory=4294967296 \
	-mllvm -disable-lsr -o "${1:-../kernels.wasm}" ./*.c
