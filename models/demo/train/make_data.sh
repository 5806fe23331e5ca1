#!/bin/sh
# Builds the corpus and its token files in ../data, in about five minutes: make_data.sh PROMPTS.jsonl [--partial]
# With --partial it goes on without modules that cannot be downloaded; the manifest names them.
set -eu
cd "$(dirname "$0")"
mkdir -p ../data
modules=$(sed 's/#.*//' modules.txt)
# A module that asks for a newer Go is still unpacked.
(cd "$(mktemp -d)" && printf 'module corpus\n' >go.mod &&
  for m in $modules; do go mod download "$m" || test -d "$(go env GOMODCACHE)/$m" || test "${2-}"; done)
/usr/bin/python3 corpus.py ${2-} ../data "$1" $modules >../data/corpus.log
for part in train valid; do /usr/bin/python3 bpe.py encode vocab-4096.json ../data/$part.txt ../data/$part.npy; done
sha256sum ../data/*.npy
