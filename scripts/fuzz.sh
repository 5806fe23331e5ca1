#!/bin/sh
# Runs one fuzz target: fuzz.sh PACKAGE:FUNCTION TIME, with TIME a number of runs (3000x) or a duration (3s). The
# test program of the package is build/fuzz's, which the Makefile builds once for all targets of a package.
#
# What Go found new stays in its cache, so that a later run goes on from there; an input that fails is written
# below the package's testdata/fuzz, to fix and to commit. Do not run more targets at once than there are processors: Go
# takes a worker that waits long for a processor for one that hangs.
set -eu
package=${1%%:*} target=${1##*:}
program=$PWD/build/fuzz/$(echo "$package" | tr / _).test
cache=$(go env GOCACHE)/fuzz/foretoken/$package
log=$PWD/build/fuzz/$(echo "$package" | tr / _)-$target.log
if ! (cd "$package" && "$program" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$2" -test.fuzzminimizetime 1x \
	-test.parallel 1 -test.timeout 0 -test.fuzzcachedir "$cache") >"$log" 2>&1; then
	cat "$log"
	echo "fuzz: $package $target FAILED"
	exit 1
fi
echo "fuzz: $package $target: $(grep '^fuzz: elapsed' "$log" | tail -1 | sed 's/^fuzz: //')"
