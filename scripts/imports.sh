#!/bin/sh
# Checks that dependencies point one way: cmd → bench, fit, openai, trace; wasm → bench, openai, trace; these →
# foretoken → internal/{pair,costmodel,warmup} → models, spec, webgpu; audit → internal/pair; within spec method →
# goodput → adapt → draft → spec; within models as the table says; all of them → the rest of internal. Only fit imports
# GoMLX. Prints every import that breaks a rule and fails.
set -eu
list() {
  go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}' ./...
  go list -f '{{$p := .ImportPath}}{{range .TestImports}}{{$p}}:test {{.}}{{"\n"}}{{end}}\
{{range .XTestImports}}{{$p}}:test {{.}}{{"\n"}}{{end}}' ./...
}
{ list; GOOS=js GOARCH=wasm list; } | sort -u | awk '
BEGIN { # what a package of models imports of models, spec and webgpu
  may["gguf"] = may["demo"] = "none"
  may["arch"] = may["quant"] = "models/gguf"
  may["tokenizer"] = "models/(gguf|tokenizer)"
  may["safetensors"] = "models/(gguf|quant)"
  may["convert"] = "models/(arch|gguf|quant|safetensors|tokenizer)"
  may["chat"] = "models/(chat|gguf)"
  may["grammar"] = "models/grammar"
  may["constrain"] = "models/(grammar|tokenizer)|spec"
  may["kv"] = may["tune"] = "webgpu"
  may["graph"] = "models/(arch|gguf|kv|quant|tune)|webgpu"
  may["runner"] = "models/(gguf|graph|kv)|spec|webgpu"
}
function ours(p) { return p ~ /^foretoken($|\/)/ }
function layer(p) {
  return p == "foretoken/spec" ? 1 : p == "foretoken/spec/draft" ? 2 : p == "foretoken/spec/adapt" ? 3 : \
  p == "foretoken/spec/goodput" ? 4 : p == "foretoken/spec/method" ? 5 : 0 }
function room(p) { return p ~ /^foretoken\/internal\/(pair|costmodel|warmup)$/ }
function bad(why) { printf "%s imports %s: %s\n", $1, $2, why; failed = 1 }
{
  pkg = $1; test = sub(/:test$/, "", pkg)
  if (pkg ~ /^foretoken\/spec($|\/)/ && !test && $2 ~ /\./) bad("spec takes the standard library and internal only")
  if ($2 ~ /^github.com\/gomlx\// && pkg != "foretoken/fit") bad("only fit trains with GoMLX")
  if (!ours($2)) next
  if (room(pkg)) {
    if (room($2)) bad("the rooms of a session share nothing")
    if ($2 !~ /^foretoken\/(internal|models|spec|webgpu)($|\/)/) bad("what the root stands on does not import it")
    next
  }
  if (pkg ~ /^foretoken\/internal\//) {
    if ($2 !~ /^foretoken\/internal\//) bad("internal packages are for all, so they import none of the others")
    next
  }
  if ($2 == "foretoken/audit" && pkg != "foretoken/cmd/gpuaudit") bad("the audit is a tool")
  if (pkg == "foretoken/audit") {
    if ($2 !~ /^foretoken\/(internal\/(pair|files)|models|spec|webgpu)($|\/)/ && !(test && $2 == "foretoken"))
      bad("the audit lists the kernels of a pair")
    next
  }
  if (room($2) && pkg != "foretoken") bad("the rooms of a session are the root\047s")
  if (pkg == "foretoken/models/arch" && !test && $2 ~ /^foretoken\/internal\/[^qf]/)
    bad("architectures are data read from GGUF")
  if ($2 ~ /^foretoken\/internal\//) next
  if ($2 == "foretoken/spec/spectest") { if (!test) bad("scripted models are for tests") }
  else if (pkg == "foretoken/spec/spectest") {
    if (!test && $2 != "foretoken/spec") bad("spectest uses spec alone, so that every test can use it")
  }
  else if (pkg ~ /^foretoken\/spec($|\/)/) {
    if (!layer($2) || !layer(pkg)) bad("spec imports no package of ours")
    else if (layer($2) >= layer(pkg)) bad("within spec imports run method, goodput, adapt, draft, spec")
  }
  else if (pkg == "foretoken/webgpu") {
    if (!test || $2 !~ /^foretoken\/webgpu/) bad("webgpu imports no package of ours")
  }
  # spec: the reference of noise and verdicts
  else if (pkg ~ /^foretoken\/webgpu\/kernels($|\/)/ && test && $2 ~ /^foretoken\/(spec|webgpu\/.*)$/) next
  else if (pkg ~ /^foretoken\/webgpu\/kernels$/) {
    if ($2 != "foretoken/webgpu") bad("what kernels share imports webgpu only")
  }
  else if (pkg ~ /^foretoken\/webgpu\/kernels\// && pkg !~ /\/kerneltest$/) {
    if ($2 !~ /^foretoken\/webgpu(\/kernels)?$/) bad("a package of kernels imports kernels and webgpu only")
  }
  else if (pkg ~ /^foretoken\/webgpu\//) {
    if ($2 !~ /^foretoken\/webgpu($|\/)/) bad("webgpu knows nothing of language models")
  }
  else if (pkg ~ /^foretoken\/models\//) {
    split(pkg, part, "/")
    if (part[3] in may && !test && pkg !~ /\/judge/) {
      if ($2 !~ "^foretoken/(" may[part[3]] ")($|/)") bad("see the table of imports of models")
      if ($2 ~ /^foretoken\/spec\//) bad("models run what spec asks for, and know no policy")
    }
    else if ($2 !~ /^foretoken\/(models|spec|webgpu)($|\/)/) bad("models may use models, spec and webgpu")
  }
  else if (pkg == "foretoken") {
    if ($2 !~ /^foretoken\/(models|spec|webgpu)($|\/)/) bad("foretoken may use models, spec and webgpu")
  }
  else if ($2 == "foretoken/openai/openaitest") { if (!test) bad("what tests of the API share is for tests") }
  else if (pkg ~ /^foretoken\/(bench|fit|openai|openai\/openaitest|trace)$/) {
    if ($2 !~ /^foretoken(\/(models|spec|testdata|webgpu)(\/|$)|$)/) bad("they work on the public session")
  }
  else if (pkg ~ /^foretoken\/wasm/ && $2 == "foretoken/fit") bad("training stays out of the browser")
  else if ($2 ~ /^foretoken\/(wasm|cmd)($|\/)/ && $2 !~ "^" pkg) bad("programs are not imported")
}
END { exit failed }'
# What a model wrote (callreader) is cut out piece by piece; the rest read files of the repository, or what the program
# itself wrote.
if grep -rnE 'json\.(Unmarshal|NewDecoder)\(' --include='*.go' --exclude='*_test.go' --exclude-dir=node_modules . |
  grep -vE '^\./(internal/strictjson|models/(fuzztest|modeltest|chat/callreader\.go)|openai/openaitest|audit/)'; then
  echo "imports: read JSON from outside by internal/strictjson"
  exit 1
fi
# Every visitor loads foretoken.wasm: regexp links tables and two machines, some per cent of it, net/http a sixth.
if GOOS=js GOARCH=wasm go list -deps ./wasm | grep -xE 'regexp|net/http'; then
  echo "imports: foretoken.wasm links no regexp and no net/http; use strings, and keep HTTP in cmd"
  exit 1
fi
echo "imports: dependencies point one way"
