#!/usr/bin/env bash
# `make fuzz [FUZZ_SECONDS=N]`: each fuzzer for N seconds (default 600), keeping what it finds in
# build/fuzz/corpus. A crash is left in build/fuzz and its path printed.
set -u
FUZZ_SECONDS=${1:-600}
export FUZZ_SECONDS
build=${STAX_BUILD:-build}
mkdir -p "$build/fuzz/corpus"
"$build/fuzz/seeds" "$build/fuzz/corpus"
bad=0
for t in frame wire onnx text plan tensor; do
  mkdir -p "$build/fuzz/corpus/$t"
  "$build/fuzz/fuzz_$t" -max_total_time="$FUZZ_SECONDS" -rss_limit_mb=2000 -timeout=20 -max_len=262144 \
    -artifact_prefix="$build/fuzz/crash-$t-" "$build/fuzz/corpus/$t" || bad=1
done
exit $bad
