#!/usr/bin/env bash
# clang-tidy over every C file with the include paths of its folder; cheap text rules beside it.
# Usage: tests/lint.sh [FILE...]
set -u
cd "$(dirname "$0")/.."
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(find proto kernels cache server client -name '*.c' | sort)
bad=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
inc="-Iproto/base -Iproto -I${STAX_BUILD:-build}/gen/env -I${STAX_BUILD:-build}/gen/wire -Ikernels -Ikernels/1_graph
  -Ikernels/1_graph/import -Ikernels/2_autodiff -Ikernels/3_lower -Ikernels/4_schedule -Ikernels/5_codegen
  -Ikernels/6_tune -Ikernels/ref -Icache -Iserver -Iclient -Iclient/tool -isystem $(llvm-config-19 --includedir)"
printf '%s\n' "${files[@]}" | xargs -P 2 -I{} sh -c \
  "clang-tidy --quiet {} -- -std=c11 -D_GNU_SOURCE -DSTX_VERSION='\"lint\"' $(echo $inc) 2>/dev/null || echo 'lint: {} failed'" |
  tee "$log" | grep -v '^$'
grep -q 'failed$' "$log" && bad=1
for f in $(git ls-files '*.c' '*.h'); do
  n=$(wc -l <"$f")
  [ "$n" -le 700 ] || echo "note: $f has $n lines"
  awk -v f="$f" '{ gsub(/\t/, "        ") } length($0) > 110 { print f ":" NR ": " length($0) " columns"; n = 1 } END { exit n }' "$f" || bad=1
done
[ $bad = 0 ] && echo "lint: clean"
exit $bad
