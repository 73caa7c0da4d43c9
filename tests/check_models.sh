#!/usr/bin/env bash
# `make check-models`: the whole networks of the ONNX corpus ($ONNX_CORPUS, its folder models/), with random weights
# instead of their constants, compiled and compared with the oracle. The last line is the usual one.
# Usage: tests/check_models.sh [NAME...]
set -u
cd "$(dirname "$0")/.."
if [ -z "${ONNX_CORPUS:-}" ] || [ ! -e "$ONNX_CORPUS" ]; then
  echo "skip: no ONNX corpus (set ONNX_CORPUS=FILE.tar.gz)"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
. tests/e2e/lib.sh
tar xzf "$ONNX_CORPUS" -C "$work" models || exit 1
[ $# -gt 0 ] || set -- $(ls "$work/models")
seed=${STAX_SEED:-1}
passed=0 failed=0
for name in "$@"; do
  dir=$work/random/$name
  mkdir -p "$dir"
  ln -s "$work/models/$name/test_data_set_0" "$dir/test_data_set_0"
  start=$(date +%s%N)
  weights=$("$build/tests/e2e/random_weights" "$work/models/$name/model.onnx" "$dir/model.onnx" "$seed") &&
    # 50 to 120 layers of f32: the bound of one is 1e-4
    said=$(STAX_SERVER=none "$build/stax" compare "$dir/model.onnx" --rtol 1e-3 --seed "$seed" 2>&1)
  rc=$?
  # No difference at all between f32 and f64 sums means that nothing was computed: zeros, infinities, NaN.
  if [ $rc -eq 0 ] && ! grep -q 'largest difference 0$' <<<"$said"; then
    passed=$((passed + 1)) verdict=ok
  else
    failed=$((failed + 1)) verdict=FAILED
  fi
  printf '%-14s %-6s %4s, seed %s, %6d ms  %s\n' "$name" $verdict "${weights:-no weights}" "$seed" \
    $((($(date +%s%N) - start) / 1000000)) "$(tail -1 <<<"$said")"
  rm -rf "$dir"
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
