#!/usr/bin/env bash
# The property test over many more graphs (100,000), from other seeds than `make check` uses, in slices.
# Prints progress and, for each difference, its seed and a reproducer (graph text, inputs); ends in
# `N passed, N failed, N skipped` (graphs), exit 1 with a failure. Goes on where it was stopped:
# $STAX_BUILD/overnight.next holds the next seed and the failures so far; remove it to start over.
# Environment: OVERNIGHT_GRAPHS (100000), OVERNIGHT_SEED (1000001), OVERNIGHT_SLICE (500),
# STAX_PROPERTY_JOBS (all processors).
set -u
cd "$(dirname "$0")/.." || exit 1
build=${STAX_BUILD:-build}
state=$build/overnight.next
first=${OVERNIGHT_SEED:-1000001} graphs=${OVERNIGHT_GRAPHS:-100000} slice=${OVERNIGHT_SLICE:-500}
end=$((first + graphs)) seed=$first failed=0
[ -s "$state" ] && read -r seed failed <"$state"
if [ "$seed" -lt "$first" ] || [ "$seed" -gt "$end" ]; then seed=$first failed=0; fi
export STAX_PROPERTY_JOBS=${STAX_PROPERTY_JOBS:-$(nproc)}
log=$(mktemp "${TMPDIR:-/tmp}/stax-overnight.XXXXXX")
trap 'rm -f "$log"' EXIT
while [ "$seed" -lt "$end" ]; do
  n=$((end - seed < slice ? end - seed : slice))
  STAX_TEST_SEED=$seed STAX_PROPERTY_GRAPHS=$n "$build/tests/property/test_graphs" >"$log" 2>&1
  rc=$?
  if [ $rc -ne 0 ]; then
    found=$(grep -cE '^seed [0-9]+ ' "$log")
    failed=$((failed + (found ? found : 1)))
    grep -vE '^\[|^[a-z_0-9]+\.[A-Za-z_0-9]+  ' "$log" # without the histograms
  fi
  seed=$((seed + n))
  echo "$seed $failed" >"$state"
  echo "$(date +%H:%M:%S) $((seed - first)) of $graphs graphs, $failed failed; next seed $seed"
done
rm -f "$state"
echo "$((graphs - failed)) passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
