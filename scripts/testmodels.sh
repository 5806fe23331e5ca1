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
[ -f "$out/done" ] && exit 0
mkdir -p "$out/oracle"
echo "testmodels: generating into $out"
export PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
OUT="$out" /usr/bin/python3 "$shared/mkmodels.py" >/dev/null
# ref.py looks for its models beside itself.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$shared/ref.py" "$shared/gguflib.py" "$work/"
ln -s "$(cd "$out" && pwd)" "$work/models"
for name in x3m-f16 x3m-q8_0; do
  /usr/bin/python3 "$work/ref.py" "$name" "$shared/oracle/$name.json" "$out/oracle/$name.json" >/dev/null
done
touch "$out/done"
