#!/bin/sh
# Compares every dependency with the advisories published for it: Go's with govulncheck, which reports what is called,
# and those of every npm lockfile of the repository with npm audit.
# Ends with 1 if an advisory applies or a check fails, and with 2 if an advisory database could not be reached, which
# UNREACHED=allow turns into 0. Either way the last lines name what was not checked.
set -u
GO=${GO:-go}
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0
here=$(dirname "$0")
mkdir -p build/tools
log=build/tools/audit.log
failed=0 unreached=""
unreachable='https?://[^ ":/]+/(index/|-/npm/v1/security/)|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT'
# check NAME COMMAND…: runs a check and reports its result. govulncheck ends with 3 if it finds something, and npm
# prints a heading.
check() {
	name=$1
	shift
	"$@" >"$log" 2>&1
	status=$?
	if [ $status -eq 0 ]; then
		echo "audit: $name: no advisory applies"
	elif [ $status -ne 3 ] && ! grep -q '^# npm audit report' "$log" && database=$(grep -Eom1 "$unreachable" "$log")
	then
		unreached="$unreached
audit: NOT CHECKED: $name: the advisory database could not be read ($database)"
	else
		failed=1
		cat "$log"
		echo "audit: $name: see above (status $status)"
	fi
}
npm_audit() { (cd "$1" && npm audit --package-lock-only --audit-level=low); }

check "Go modules against go.sum" "$GO" mod verify
if vulncheck=$(GO="$GO" sh "$here/tool.sh" "$GOVULNCHECK"); then
	check "Go, native" "$vulncheck" ./...
	check "Go, in the browser" env GOOS=js GOARCH=wasm "$vulncheck" ./wasm
else
	failed=1
	echo "audit: Go: $GOVULNCHECK could not be built"
fi
for lock in $(git ls-files '*package-lock.json'); do
	check "npm, $(dirname "$lock")" npm_audit "$(dirname "$lock")"
done
[ -z "$unreached" ] || echo "${unreached#?}"
[ $failed -eq 0 ] || exit 1
[ -z "$unreached" ] || [ "${UNREACHED:-}" = allow ] || exit 2
