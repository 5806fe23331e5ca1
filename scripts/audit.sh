#!/bin/sh
# Compares every dependency with the advisories published for it: Go's by govulncheck, which reports what is called
# and not only what is there, npm's by npm audit, for the site and for the benchmark beside other engines.
# Ends with 1 where something is known of a dependency, and with 2 where the advisories could not be read: then
# nothing was checked, and that is said.
set -u
GO=${GO:-go}
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.1.4
tools=$PWD/build/tools
log=$tools/audit.log
mkdir -p "$tools"
found=0 unread=0
# check NAME COMMAND…: runs a check and tells what it came to.
check() {
	name=$1
	shift
	if "$@" >"$log" 2>&1; then
		echo "audit: $name: nothing is known"
	elif grep -qi 'ECONNREFUSED\|ENOTFOUND\|EAI_AGAIN\|ETIMEDOUT\|audit endpoint returned\|dial tcp\|no such host\|fetching vulnerabilities\|certificate' "$log"; then
		unread=1
		echo "audit: $name: NOT CHECKED, the advisories cannot be reached from here"
		grep -i 'dial tcp\|audit endpoint\|fetching' "$log" | head -1
	else
		found=1
		cat "$log"
		echo "audit: $name: see above"
	fi
}
npm_audit() { (cd "$1" && npm audit --audit-level=low); }

check "Go modules against go.sum" "$GO" mod verify
GOBIN=$tools "$GO" install "$GOVULNCHECK" || exit 2
check "Go, native" "$tools/govulncheck" ./...
check "Go, in the browser" env GOOS=js GOARCH=wasm "$tools/govulncheck" ./wasm
check "npm, web" npm_audit web
check "npm, web/peers" npm_audit web/peers
[ $found -eq 0 ] || exit 1
[ $unread -eq 0 ] || { echo "audit: some advisories could not be read; run this where they can be"; exit 2; }
