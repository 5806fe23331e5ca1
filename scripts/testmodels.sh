#!/bin/sh
# Makes the test models that are derived from stories260K, a third party's model: testmodels.sh SHARED_DIR OUT_DIR. With
# ALL=1 it makes those of the benchmarks too, half a gigabyte. Models of random weights need no files: see
# models/modeltest.
#
# The weights of the x3m models come out of a QR decomposition, which machines round differently: their references are
# run again on the files made here.
set -eu
shared=${1:?usage: testmodels.sh SHARED_DIR OUT_DIR}/testmodels
out=${2:?usage: testmodels.sh SHARED_DIR OUT_DIR}
if [ ! -f "$shared/mkmodels.py" ]; then
  echo "testmodels: $shared is missing; tests with stories260K are not run"
  exit 0
fi
mkdir -p "$out/oracle"
export PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 OUT="$out"
if [ -n "${ALL:-}" ] && [ ! -f "$out/index.json" ]; then
  echo "testmodels: generating all into $out"
  /usr/bin/python3 "$shared/mkmodels.py" >/dev/null
elif [ ! -f "$out/x3m-q4_k.gguf" ]; then
  echo "testmodels: generating into $out"
  PYTHONPATH=$shared /usr/bin/python3 - >/dev/null <<'PYTHON'
import mkmodels as m
tokens, small = m.spm_kv(m.spm(m.W + "/tok512.model")), m.load_l2c(m.W + "/stories260K.bin")
m.gguf("s260k-q8_0", m.pad_hidden(small, 192), tokens, m.Q8_0)
large = m.inflate(small, 256, 8, 4, 32, 512)
m.gguf("x3m-f16", large, tokens, m.F16)
m.gguf("x3m-q6_k", large, tokens, m.Q6_K)
m.gguf("x3m-q4_k", large, tokens, m.Q4_K, mix=m.Q6_K)
PYTHON
fi
# ref.py looks for its models beside itself.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$shared/ref.py" "$shared/gguflib.py" "$work/"
ln -s "$(cd "$out" && pwd)" "$work/models"
for name in x3m-f16 x3m-q6_k x3m-q4_k; do
  made="$out/oracle/$name.json"
  [ -f "$made" ] && continue
  /usr/bin/python3 "$work/ref.py" "$name" "$shared/oracle/$name.json" "$work/made.json" >/dev/null
  mv "$work/made.json" "$made"
done
