//go:build !js

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken/internal/hint"
)

// checkedRun returns a command's RunE, which checks the flags before it runs.
func checkedRun(check func(*pflag.FlagSet) error, run func(context.Context) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := check(cmd.Flags()); err != nil {
			return err
		}
		return run(cmd.Context())
	}
}

type minimum struct {
	flag         string
	value, least int
}

// checkMinimums refuses values below the minimum of flags that were given.
func checkMinimums(given *pflag.FlagSet, all []minimum) error {
	for _, m := range all {
		if given.Changed(m.flag) && m.value < m.least {
			return usagef("--%s is %d, want %d or more", m.flag, m.value, m.least)
		}
	}
	return nil
}

// checkFileNames refuses empty file names of flags that were given.
func checkFileNames(given *pflag.FlagSet, flags ...string) error {
	for _, name := range flags {
		if f := given.Lookup(name); f.Changed && f.Value.String() == "" {
			return usagef("--%s is empty, want a file name", name)
		}
	}
	return nil
}

// checkFolders refuses output files whose folder does not exist; "" is no file.
func checkFolders(paths ...string) error {
	for _, path := range paths {
		if dir, err := os.Stat(filepath.Dir(path)); path != "" && (err != nil || !dir.IsDir()) {
			return fmt.Errorf("%s: there is no folder %s to write it to", path, filepath.Dir(path))
		}
	}
	return nil
}

// want refuses a flag's value unless it is ok.
func want(flag string, value any, ok bool, what string) error {
	if ok {
		return nil
	}
	return usagef("--%s is %v, want %s", flag, value, what)
}

func oneOfFlag(flag, value string, of []string) error {
	if slices.Contains(of, value) { // bound: values of a flag
		return nil
	}
	return usagef("--%s is %q, want %s%s", flag, value, orList(of), hint.DidYouMean(value, of))
}

// oneOfFlagOrNone also accepts the empty value, the flag's default.
func oneOfFlagOrNone(flag, value string, of []string) error {
	if value == "" {
		return nil
	}
	return oneOfFlag(flag, value, of)
}

func orList(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
