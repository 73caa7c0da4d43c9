#!/usr/bin/env bash
# Elementary functions as compiled, over every f32 argument and large samples of f64, pow and atan2: one program run a
# function, on all processors (STX_THREADS). Each line of errors is kept in $STAX_BUILD/functions.txt, so that a run that was
# stopped goes on where it was; a newer program starts over. Ends in `N passed, N failed, N skipped` (functions), exit 1
# with a failure. A function that takes longer than FUNCTION_SECONDS (300) is a failure.
# Usage: functions.sh [NAME...]     (names of tests/unit/5_codegen/test_functions.c; all by default)
set -u
cd "$(dirname "$0")/.." || exit 1
build=${STAX_BUILD:-build}
program=$build/tests/unit/5_codegen/test_functions
kept=$build/functions.txt
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(relu sqrt rsqrt cbrt exp exp2 expm1 log log2 log10 log1p tanh sigmoid near_sigmoid
  softplus erf erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh pow atan2)
if [ "$program" -nt "$kept" ]; then rm -f "$kept"; fi # other code
touch "$kept" || exit 1
log=$(mktemp "${TMPDIR:-/tmp}/stax-functions.XXXXXX")
trap 'rm -f "$log"' EXIT
passed=0 failed=0
for name in "${names[@]}"; do
  if ! grep -q "^f64 $name " "$kept"; then
    start=$SECONDS
    STX_FUNCTIONS=$name timeout "${FUNCTION_SECONDS:-300}" "$program" >"$log" 2>&1
    rc=$?
    if [ $rc -ne 0 ] || ! grep -q "^f64 $name " "$log"; then
      failed=$((failed + 1))
      echo "FAILED: $name (exit $rc)"
      grep -E "^f(32|64) |ERROR" "$log"
      continue
    fi
    grep -E "^f(32|64) $name " "$log" >>"$kept"
    echo "$(date +%H:%M:%S) $name: $((SECONDS - start)) s"
  fi
  grep -E "^f(32|64) $name " "$kept"
  passed=$((passed + 1))
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
