#!/bin/sh
# Checks that dependencies point one way: wasm, cmd → foretoken → models, spec,
# webgpu. Prints every import that breaks the rule and fails.
set -eu
list() { go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}{{range .TestImports}}{{$p}}:test {{.}}{{"\n"}}{{end}}' ./...; }
{ list; GOOS=js GOARCH=wasm list; } | sort -u | awk '
function ours(p) { return p ~ /^foretoken($|\/)/ }
function bad(why) { printf "%s imports %s: %s\n", $1, $2, why; failed = 1 }
{
  pkg = $1; test = sub(/:test$/, "", pkg)
  if (pkg ~ /^foretoken\/spec($|\/)/ && !test && $2 ~ /\./) bad("spec takes the standard library only")
  if (!ours($2)) next
  if (pkg ~ /^foretoken\/spec($|\/)/) { if ($2 !~ /^foretoken\/spec/) bad("spec imports no package of ours") }
  else if (pkg == "foretoken/webgpu") { if (!test || $2 !~ /^foretoken\/webgpu/) bad("webgpu imports no package of ours") }
  else if (pkg == "foretoken/webgpu/kernels" && test && $2 == "foretoken/spec") next # the reference of noise and verdicts
  else if (pkg ~ /^foretoken\/webgpu\//) { if ($2 !~ /^foretoken\/webgpu($|\/)/) bad("webgpu knows nothing of language models") }
  else if (pkg ~ /^foretoken\/models\//) { if ($2 !~ /^foretoken\/(models|spec|webgpu)($|\/)/) bad("models may use models, spec and webgpu") }
  else if (pkg == "foretoken") { if ($2 !~ /^foretoken\/(models|spec|webgpu)($|\/)/) bad("foretoken may use models, spec and webgpu") }
  else if ($2 ~ /^foretoken\/(wasm|cmd)($|\/)/ && $2 !~ "^" pkg) bad("programs are not imported")
}
END { exit failed }'
echo "imports: dependencies point one way"
