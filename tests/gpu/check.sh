#!/usr/bin/env bash
# `make check-gpu`, and ./check-gpu of a bundle: what a GPU can check, on this machine's. Without one it says so, in one
# line, and succeeds. The last line is `N passed, N failed, N skipped`.
# Usage: check.sh [tests|products|convolutions|attention|property|corpus|sanitizer]...      (all seven)
#   GPU_JOBS=N          processes side by side (the cores, 16 at most)
#   GPU_GRAPHS=400      random graphs of the property test, from STAX_TEST_SEED on
#   GPU_LIMIT=600       seconds a part may take
#   GPU_LOGS=DIR        keeps each part's whole output
set -u
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
. tests/gpu/env.sh
. tests/e2e/lib.sh
find_nvrtc
if ! find_gpu; then
  echo "skip: $no_gpu"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
describe_machine
cores=$(nproc)
jobs=${GPU_JOBS:-$((cores < 16 ? cores : 16))}
limit=${GPU_LIMIT:-600}
logs=${GPU_LOGS:-$work/logs}
mkdir -p "$logs"

# Each part writes its output to its log and ends it with a line of counts; what fails is shown.
# A program's tests are dealt to the number of processes that tests/gpu/programs says (tests/shard.c). Those of one
# process may have lost the GPU to one that failed before them: the first failure counts.
part_tests() {
  local program shards i all=()
  export STAX_TEST_TARGET=$target
  while read -r program shards; do
    for ((i = 0; i < shards; i++)); do
      all+=("$work/build/tests/$program.$i")
      mkdir -p "$(dirname "${all[-1]}")"
      printf '#!/bin/sh\nSTAX_TEST_SHARD=%s/%s exec "%s"\n' "$i" "$shards" "$build/tests/$program" >"${all[-1]}"
      chmod +x "${all[-1]}"
    done
  done <tests/gpu/programs
  tests/run.sh -j "$jobs" -t "$limit" "${all[@]}"
}
show_tests() {
  grep -aE '^ERROR: |^\[  (ERROR   \] ---|FAILED  \] test)| [1-9][0-9]* failed .* ms$' "$1" | grep -av 'FAILED.*listed below' |
    cut -c1-240 | head -n 100
}

# Through cuBLASLt where it is, against the CPU.
part_products() { timeout -k 10 "$limit" tests/gpu/calls.sh products --target "$target"; }
show_products() { grep -a '^FAILED' "$1" | cut -c1-240; }

# Through cuDNN where it is.
part_convolutions() { timeout -k 10 "$limit" tests/gpu/calls.sh convolutions --target "$target"; }
show_convolutions() { grep -aE '^FAILED|by kernels only' "$1" | cut -c1-240; }

part_attention() { timeout -k 10 "$limit" tests/gpu/calls.sh attention --target "$target"; }
show_attention() { show_convolutions "$1"; }

# Every process starts a driver of its own: none survives a fork.
part_property() {
  STAX_TEST_TARGET=$target STAX_PROPERTY_JOBS=$jobs STAX_PROPERTY_GRAPHS=${GPU_GRAPHS:-400} \
    timeout -k 10 "$limit" "$build/tests/property/test_graphs" 2>&1
  local rc=$?
  [ $rc = 124 ] && echo "FAILED: not done after $limit s"
  echo "property $rc"
}
# Graphs are counted: those that were drawn, since a run stops at its fifth failure.
count_property() {
  local graphs failed refused
  graphs=$(grep -aoE '^[0-9]+ graphs' "$1" | cut -d' ' -f1)
  failed=$(grep -acE '^seed [0-9]+ ' "$1")
  refused=$(grep -aoE '^[0-9]+ refused' "$1" | cut -d' ' -f1)
  grep -q '^property 0$' "$1" || failed=$((failed ? failed : 1))
  echo "$((${graphs:-failed} - failed - ${refused:-0})) passed, $failed failed, ${refused:-0} skipped"
}
show_property() { grep -aE '^(seed|shrunk|FAILED)|graphs,|refused|crash' "$1"; }

part_corpus() {
  local dir=$PWD/corpus
  if [ ! -d "$dir" ] && [ -e "${ONNX_CORPUS:-}" ]; then
    dir=$work/corpus
    mkdir "$dir" && tar xzf "$ONNX_CORPUS" -C "$dir"
  fi
  if [ ! -d "$dir" ]; then
    echo "skip: no ONNX tests here (ONNX_CORPUS=FILE.tar.gz)"
    echo "0 passed, 0 failed, 1 skipped"
    return
  fi
  start_daemon --workers "$jobs" || return
  timeout -k 10 "$limit" "$build/stax" check-onnx "$dir" --target "$target" --jobs "$jobs" --timeout 60 2>&1 ||
    { [ $? = 124 ] && echo "FAIL: not done after $limit s"; }
  stop_daemon
}
show_corpus() { grep -aE '^FAIL|does not|did not' "$1" | cut -c1-240 | head -n 40; }

# One line for a graph and a tool: PASS, FAIL or SKIP.
sanitize() { # TOOL GRAPH
  local tool=$1 graph=$2 name said rc
  name="$tool $(basename "$graph" .stax)"
  said=$("$build/stax" compile "$graph" --target "$target" --json 2>/dev/null)
  if grep -q '"code":"UNSUPPORTED"' <<<"$said"; then
    echo "SKIP $name: not compiled for a GPU yet: $(sed -E 's/.*"text":"([^"]*).*/\1/' <<<"$said")"
    return
  fi
  said=$(timeout -k 10 120 "$sanitizer" --tool "$tool" --error-exitcode 99 "$build/stax" run "$graph" --target "$target" 2>&1)
  rc=$?
  if [ $rc = 0 ] && grep -qE 'ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards' <<<"$said"; then
    echo "PASS $name"
  else
    echo "FAIL $name: $(grep -aE 'Error|error|hazard|stax:|Invalid|SUMMARY' <<<"$said" | head -n 3 | tr '\n' ' ' | cut -c1-400)"
  fi
}
part_sanitizer() {
  local probe
  sanitizer=$(command -v compute-sanitizer || compgen -G "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" ||
    compgen -G '/usr/local/cuda*/bin/compute-sanitizer' || compgen -G '/opt/nvidia/*/compute-sanitizer')
  sanitizer=$(head -n 1 <<<"$sanitizer")
  start_daemon --workers "$jobs" || return
  probe=${sanitizer:+$("$sanitizer" --tool memcheck "$build/stax" run tests/gpu/graphs/pointwise_1d.stax --target "$target" 2>&1)}
  if ! grep -q 'ERROR SUMMARY' <<<"$probe"; then
    [ -n "$sanitizer" ] && echo "$probe"
    echo "skip: ${sanitizer:-compute-sanitizer} $([ -n "$sanitizer" ] && echo does not work here || echo is not here)"
    echo "0 passed, 0 failed, 1 skipped"
    stop_daemon
    return
  fi
  export -f sanitize
  export sanitizer build target
  printf '%s\n' tests/gpu/graphs/*.stax | sed -E 's/(.*)/memcheck\n\1\nracecheck\n\1/' |
    timeout -k 10 "$limit" xargs -P $(((jobs + 1) / 2)) -n 2 bash -c 'sanitize "$@"' - >"$work/sanitized"
  stop_daemon
  sort "$work/sanitized"
  awk '{n[$1]++} END {print n["PASS"] + 0 " passed, " n["FAIL"] + 0 " failed, " n["SKIP"] + 0 " skipped"}' "$work/sanitized"
}
show_sanitizer() { grep -aE '^(FAIL|SKIP|skip)' "$1"; }

parts=("$@")
[ $# -gt 0 ] || parts=(tests products convolutions attention property corpus sanitizer)
for part in "${parts[@]}"; do
  if ! declare -F "part_$part" >/dev/null; then
    echo "check.sh: no part '$part': tests, products, convolutions, attention, property, corpus, sanitizer" >&2
    exit 2
  fi
done
for part in "${parts[@]}"; do
  start=$SECONDS
  "part_$part" >"$logs/$part.log" 2>&1
  if [ "$part" = property ]; then
    counted=$(count_property "$logs/$part.log")
    echo "$counted" >>"$logs/$part.log"
  fi
  line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$logs/$part.log" | tail -n 1)
  "show_$part" "$logs/$part.log" | sed 's/^/  /'
  if [ -z "$line" ]; then
    tail -n 15 "$logs/$part.log"
    line="0 passed, 1 failed, 0 skipped"
  fi
  echo "$part: $line ($((SECONDS - start)) s)"
  read -r p _ f _ s _ <<<"$line"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
finish
