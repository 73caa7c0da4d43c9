#!/usr/bin/env bash
# The ONNX backend tests through `stax check-onnx`, when the corpus is there ($ONNX_CORPUS: a tar.gz): part of
# `make check`. Prints the usual line; a missing corpus is one skip.
set -u
cd "$(dirname "$0")/.."
if [ -z "${ONNX_CORPUS:-}" ] || [ ! -e "$ONNX_CORPUS" ]; then
  echo "skip: no ONNX corpus (set ONNX_CORPUS=FILE.tar.gz)"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
. tests/e2e/lib.sh
mkdir "$work/corpus"
tar xzf "$ONNX_CORPUS" -C "$work/corpus" || exit 1
start_daemon || exit 1
"$build/stax" check-onnx "$work/corpus" --jobs 2 --timeout 120 >"$work/report" 2>"$work/report.err"
rc=$?
grep -v '^SKIP' "$work/report" | tail -40
grep '^SKIP' "$work/report" | sed -E "s/^SKIP [^ ]+:? *//; s/'[^']*'/X/g" | sort | uniq -c | sort -rn | head -25
tail -5 "$work/report.err"
least=${ONNX_LEAST:-1320}
n=$(tail -1 "$work/report" | grep -oE '^[0-9]+')
if [ "${n:-0}" -lt "$least" ]; then
  echo "only ${n:-0} passed; at least $least are expected"
  exit 1
fi
exit $rc
