#!/bin/sh
# Prints the path of a Go program of an exact version, sh scripts/tool.sh PACKAGE@VERSION, and builds it first if it is
# missing. go run would build it for $GOOS, and a line in go.mod would mix its dependencies with the project's.
set -eu
name=$(basename "${1%@*}") folder=$PWD/build/tools
path=$folder/$name-${1##*@}-$(${GO:-go} env GOVERSION)
if [ ! -x "$path" ]; then
	mkdir -p "$folder"
	made=$(mktemp -d "$folder/XXXXXX")
	GOOS= GOARCH= GOBIN=$made ${GO:-go} install "$1" >&2
	mv "$made/$name" "$path"
	rmdir "$made"
fi
echo "$path"
