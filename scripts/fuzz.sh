#!/bin/sh
# Runs one fuzz target: fuzz.sh PACKAGE:FUNCTION TIME, with TIME a duration (30s) or a number of runs (10000000x). The
# test program of the package is built/fuzz's, which the Makefile builds once for all targets of a package.
#
# What Go found new stays in its cache, so that a later run goes on from there; an input that fails is written
# below the package's testdata/fuzz, to be mended and kept.
set -eu
package=${1%%:*} target=${1##*:}
program=$PWD/build/fuzz/$(echo "$package" | tr / _).test
cache=$(go env GOCACHE)/fuzz/foretoken/$package
log=$PWD/build/fuzz/$(echo "$package" | tr / _)-$target.log
run() {
	(cd "$package" && "$program" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$1" -test.fuzzminimizetime 1x \
		-test.parallel 1 -test.timeout 0 -test.fuzzcachedir "$cache") >"$log" 2>&1
}
# innocent tells whether a run failed for want of the machine's time or memory, which says nothing of the program: its
# worker was lost without an input that fails, or was taken for hung with one that passes by itself.
innocent() {
	input=$(sed -n 's|.*Failing input written to \(testdata/fuzz/[^ ]*\).*|\1|p' "$log" | tail -1)
	if [ -z "$input" ]; then
		! grep -q 'failure while testing seed corpus\|panic:\|--- FAIL: [^ ]*/' "$log"
	else
		grep -q 'hung or terminated unexpectedly: exit status 2' "$log" &&
			(cd "$package" && "$program" -test.run "^$target\$/^${input##*/}\$" -test.timeout 60s >/dev/null 2>&1 && rm "$input")
	fi
}
if ! run "$2" && { ! innocent || ! run "$2"; }; then
	cat "$log"
	echo "fuzz: $package $target FAILED"
	exit 1
fi
echo "fuzz: $package $target: $(grep '^fuzz: elapsed' "$log" | tail -1 | sed 's/^fuzz: //')"
