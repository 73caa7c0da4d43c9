#!/usr/bin/env bash
# Each fuzzer for a fixed number of runs from a fixed seed (FUZZ_SEED, default 1), on its seeds and the ONNX
# corpus' models when it is there: part of `make check`, so that the same tree gives the same verdict. `make fuzz`
# is the search. Prints the usual line. FUZZ_SECONDS bounds the time of each.
set -u
build=${STAX_BUILD:-build}
seconds=${FUZZ_SECONDS:-15}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/fuzz/seeds" "$work" || exit 1
mkdir -p "$work/onnx"
corpus=${ONNX_CORPUS:-}
if [ -n "$corpus" ] && [ -e "$corpus" ]; then
  tar xzf "$corpus" -C "$work" --wildcards 'node/test_a*/model.onnx' 'node/test_re*/model.onnx' 2>/dev/null
  n=0
  while IFS= read -r m; do
    n=$((n + 1))
    cp "$m" "$work/onnx/$n"
  done < <(find "$work/node" -name model.onnx -size -8k 2>/dev/null | sort | head -120)
  rm -rf "$work/node"
fi
passed=0 failed=0
for job in frame:200000 wire:150000 onnx:40000 text:60000 plan:300000 tensor:150000; do
  t=${job%%:*}
  if "$build/fuzz/fuzz_$t" -seed="${FUZZ_SEED:-1}" -runs="${job##*:}" -max_total_time="$seconds" -rss_limit_mb=2000 -timeout=20 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="$work/crash-$t-" "$work/$t" >"$work/$t.log" 2>&1; then
    passed=$((passed + 1))
    grep -E 'stat::number_of_executed_units' "$work/$t.log" | sed "s/^/fuzz_$t /"
  else
    failed=$((failed + 1))
    tail -40 "$work/$t.log"
    for c in "$work/crash-$t-"*; do
      [ -e "$c" ] && { echo "input of fuzz_$t, base64:"; base64 -w 120 "$c" | head -40; }
    done
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
