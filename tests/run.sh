#!/usr/bin/env bash
# Runs test programs one after the other and sums what they report.
# Usage: tests/run.sh [-j N] [-t SECONDS] PROGRAM...
# A program is a cmocka group, or prints `N passed, N failed[, N skipped]` as its last such line. One that
# dies, times out, or reports nothing counts as one failure. The last line is the total.
set -u
jobs=1 limit=600
while getopts j:t: o; do case $o in j) jobs=$OPTARG ;; t) limit=$OPTARG ;; *) exit 2 ;; esac; done
shift $((OPTIND - 1))
work=$(mktemp -d "${TMPDIR:-/tmp}/stax-tests.XXXXXX")
trap 'rm -rf "$work"' EXIT

one() { # program number
  local out="$work/$2.out" start end rc line passed failed skipped
  start=$(date +%s%N)
  timeout -k 10 "$limit" "$1" >"$out" 2>&1 </dev/null
  rc=$?
  end=$(date +%s%N)
  line=$(grep -aE '^([A-Za-z-]+: )?[0-9]+ passed, [0-9]+ failed' "$out" | tail -n 1)
  if [ -n "$line" ]; then
    passed=$(grep -oE '[0-9]+ passed' <<<"$line" | cut -d' ' -f1)
    failed=$(grep -oE '[0-9]+ failed' <<<"$line" | cut -d' ' -f1)
    skipped=$(grep -oE '[0-9]+ skipped' <<<"$line" | cut -d' ' -f1)
  else
    passed=$(grep -aoE '\[  PASSED  \] [0-9]+ test' "$out" | grep -oE '[0-9]+' | awk '{s += $1} END {print s + 0}')
    failed=$(grep -aoE '\[  FAILED  \] [0-9]+ test' "$out" | grep -oE '[0-9]+' | awk '{s += $1} END {print s + 0}')
    skipped=$(grep -aoE '\[  SKIPPED \] [0-9]+ test' "$out" | grep -oE '[0-9]+' | awk '{s += $1} END {print s + 0}')
  fi
  passed=${passed:-0} failed=${failed:-0} skipped=${skipped:-0}
  if [ "$rc" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
  if [ $((passed + failed + skipped)) -eq 0 ]; then failed=1; fi
  printf '%s %s %s\n' "$passed" "$failed" "$skipped" >"$work/$2.sum"
  printf '%-52s %5d passed %3d failed %3d skipped %7d ms\n' "${1#*build*/tests/}" "$passed" "$failed" \
    "$skipped" $(((end - start) / 1000000))
  if [ "$failed" -ne 0 ]; then
    echo "---- $1 (exit $rc) ----"
    tail -c 6000 "$out"
    echo "----"
  elif [ "$skipped" -ne 0 ]; then
    grep -aiE 'skip' "$out" | head -20 | sed 's/^/    /'
  fi
}

n=0
for p in "$@"; do
  n=$((n + 1))
  one "$p" "$n" &
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
done
wait
cat "$work"/*.sum 2>/dev/null | awk '{p += $1; f += $2; s += $3}
  END {printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f != 0 || p == 0}'
