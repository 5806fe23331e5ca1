#!/bin/sh
# Compares every dependency with the advisories published for it: Go's by govulncheck, which reports what is called
# and not only what is there, npm's by npm audit, for the site and for the benchmark beside other engines.
# Ends with 1 where something is known of a dependency, and with 2 where something could not be checked, as where the
# advisories cannot be reached: that is said then.
set -u
GO=${GO:-go}
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.1.4
tools=$PWD/build/tools
log=$tools/audit.log
mkdir -p "$tools"
found=0 unread=0
# check NAME COMMAND…: runs a check and tells what it came to. What was found is told by the tools' own signs: govulncheck
# ends with 3, npm heads a report, go names what is modified. Whatever else fails has checked nothing, and says why.
check() {
	name=$1
	shift
	"$@" >"$log" 2>&1
	status=$?
	if [ $status -eq 0 ]; then
		echo "audit: $name: nothing is known"
	elif [ $status -eq 3 ] || grep -q '^# npm audit report\|has been modified\|checksum mismatch' "$log"; then
		found=1
		cat "$log"
		echo "audit: $name: see above"
	else
		unread=1
		echo "audit: $name: NOT CHECKED, the check ended with $status:"
		grep -v '^$' "$log" | tail -3
	fi
}
npm_audit() { (cd "$1" && npm audit --audit-level=low); }

check "Go modules against go.sum" "$GO" mod verify
govulncheck() { GOBIN=$tools "$GO" install "$GOVULNCHECK" && env "$@"; }
check "Go, native" govulncheck "$tools/govulncheck" ./...
check "Go, in the browser" govulncheck GOOS=js GOARCH=wasm "$tools/govulncheck" ./wasm
check "npm, web" npm_audit web
check "npm, web/peers" npm_audit web/peers
[ $found -eq 0 ] || exit 1
[ $unread -eq 0 ] || { echo "audit: not everything was checked; run this where the advisories can be read"; exit 2; }
