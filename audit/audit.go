//go:build cgo && !js

// Package audit says what the compilers of GPUs make of the kernels, without such a GPU: it lists every kernel that an
// adapter can be given, compiles them by AMD's compiler, and checks their text by rules for the compilers that run
// nowhere here. A kernel that spills registers or keeps an array in memory is slow on cards that no test has.
//
// Mesa's RADV has AMD's compiler. It runs here for a null device, which compiles and computes nothing; nullgpu/shim.c
// lets wgpu-native open it.
package audit

import (
	"errors"
	"fmt"
	"strings"

	"foretoken/webgpu/kernels/matmul"
)

// Compile compiles every kernel for every GPU by the RADV that a pattern of file names matches, "" for Debian's, and
// reports the compiler's statistics.
func Compile(radv string) (*Report, error) {
	c, err := newCompiler(radv)
	if err != nil {
		return nil, fmt.Errorf("audit: %w is missing", err)
	}
	defer c.close()
	list, err := kernelsOf(gpuInfo(), true)
	if err != nil {
		return nil, err
	}
	r := newReport(list)
	for _, g := range gpus {
		all, driver, err := c.compile(g, list)
		if err != nil {
			return nil, err
		}
		r.add(g, driver, all)
	}
	return r, nil
}

// mostBroken bounds the broken rules that Lint reports, leastLinted is a number of kernels that it must find.
const mostBroken, leastLinted = 40, 2000

// Lint checks the text of every kernel that a GPU can be given, with subgroups and packed products and without, and
// returns the broken rules.
func Lint() error {
	list, err := kernelsOf(gpuInfo(gpuFeatures...), true)
	if err != nil {
		return err
	}
	packed, err := listed(rooflined, matmul.DotProduct)
	if err != nil {
		return err
	}
	if list = append(list, packed...); len(list) < leastLinted {
		return fmt.Errorf("audit: %d kernels are listed, want at least %d", len(list), leastLinted)
	}
	var broken []error
	for _, k := range list {
		s := parseShader(k.Shader())
		if len(s.funcs) == 0 || len(s.globals) < 2 {
			return fmt.Errorf("audit: %s: read %d functions and %d variables", k.label, len(s.funcs), len(s.globals))
		}
		for name, check := range shaderRules {
			if bad := check(s); len(bad) > 0 && len(broken) < mostBroken {
				broken = append(broken, fmt.Errorf("%s breaks %s: %s", k.label, name, strings.Join(bad, "; ")))
			}
		}
	}
	return errors.Join(broken...)
}
