#!/bin/sh
# Generates the test models and, for those that this machine's linear algebra may
# round otherwise than the machine the shared references were made on, the
# same references anew. Skips visibly where the shared test data is missing.
set -eu
shared=${1:?usage: testmodels.sh SHARED_DIR OUT_DIR}/testmodels
out=${2:?usage: testmodels.sh SHARED_DIR OUT_DIR}
if [ ! -f "$shared/mkmodels.py" ]; then
  echo "testmodels: $shared is missing; tests that need the test models are skipped"
  exit 0
fi
mkdir -p "$out/oracle"
export PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
if [ ! -f "$out/done" ]; then
  echo "testmodels: generating into $out"
  OUT="$out" /usr/bin/python3 "$shared/mkmodels.py" >/dev/null
  touch "$out/done"
fi
# ref.py looks for its models beside itself.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$shared/ref.py" "$shared/gguflib.py" "$work/"
ln -s "$(cd "$out" && pwd)" "$work/models"
for name in x3m-f16 x3m-q8_0 x3m-q4_k x3m-q6_k x3m-qwen2-f32; do
  made="$out/oracle/$name.json"
  [ -f "$made" ] && continue
  /usr/bin/python3 "$work/ref.py" "$name" "$shared/oracle/$name.json" "$work/made.json" >/dev/null
  mv "$work/made.json" "$made"
done
