#!/bin/sh
# Measures what the built-in target writes, beside the one before it: judge.sh OUT.json. foretoken is on the PATH.
# functions.jsonl and questions.jsonl are held out from training; the model card shows some with what was written.
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
write() { foretoken generate --json --device cpu --max-tokens 140 "$@"; }
git show 57b8cd7:models/demo/target-q8_0.gguf >"$folder/former.gguf"
write --prompt-file functions.jsonl >"$folder/target.jsonl"
write --prompt-file functions.jsonl --target "$folder/former.gguf" --draft none --policy none >"$folder/former.jsonl"
write --prompt-file questions.jsonl >"$folder/answers.jsonl"
go run judge.go score functions.jsonl "$folder/target.jsonl" functions.jsonl "$folder/former.jsonl" \
  questions.jsonl "$folder/answers.jsonl" >"$1"
{
  sed '/^<!-- samples -->$/q' ../README.md
  echo
  go run judge.go samples functions.jsonl "$folder/target.jsonl" 20
  go run judge.go samples questions.jsonl "$folder/answers.jsonl" 10
  sed -n '/^<!-- samples end -->$/,$p' ../README.md
} >"$folder/README.md"
mv "$folder/README.md" ../README.md
