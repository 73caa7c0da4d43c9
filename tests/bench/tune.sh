#!/usr/bin/env bash
# Launch configurations on a GPU: the heuristic's first choice and the measured one against the best of a sweep, on ten
# kernels; and of two matrix products cuBLASLt's first algorithm and the measured one against the best of all it lists.
# Usage: tests/bench/tune.sh [CONFIGURATIONS [SECONDS]]  of the sweep, by default 150 of all a kernel can have, spread
# evenly, and fewer (8 at least) where all twelve would not be done in 250 seconds otherwise; the library's are all.
# Wanted: the heuristic within 10%, the measured choice within 3%, with 8 measurements at most. Exit 1 if not; of products
# only the measured choice counts.
set -u
cd "$(dirname "$0")/../.."
. tests/gpu/env.sh
. tests/e2e/lib.sh
find_nvrtc
sweep=${1:-150}
seconds=${2:-250}
start_daemon --workers "$(nproc)" || exit 1

graph() { cat >"$work/$1.stax"; }
graph add <<<'%x : bf16[4096,8192] = placeholder()
%y : bf16[4096,8192] = placeholder()
%a = add.Tensor(%x, %y)
return (%a,)'
graph gelu <<<'%x : bf16[4096,16384] = placeholder()
%a = gelu.default(%x)
return (%a,)'
graph small <<<'%x : f32[64,16384] = placeholder()
%a = mul.Tensor(%x, %x)
%b = add.Tensor(%a, %x)
return (%b,)'
graph transpose <<<'%x : f32[4096,4096] = placeholder()
%y : f32[4096,4096] = placeholder()
%t = t.default(%x)
%a = add.Tensor(%t, %y)
return (%a,)'
graph permute <<<'%x : f32[64,128,512] = placeholder()
%y : f32[512,128,64] = placeholder()
%t = permute.default(%x, [2, 1, 0])
%a = add.Tensor(%t, %y)
return (%a,)'
graph rowsum <<<'%x : f32[65536,128] = placeholder()
%s = sum.dim_IntList(%x, [1])
return (%s,)'
graph rows1000 <<<'%x : f32[16384,1000] = placeholder()
%s = sum.dim_IntList(%x, [1])
return (%s,)'
graph softmax <<<'%x : bf16[4096,1024] = placeholder()
%s = softmax.int(%x, -1)
return (%s,)'
graph longrows <<<'%x : bf16[4096,32768] = placeholder()
%s = softmax.int(%x, -1)
return (%s,)'
graph columns <<<'%x : f32[4096,8192] = placeholder()
%s = sum.dim_IntList(%x, [0])
return (%s,)'

graph square <<<'%x : bf16[4096,4096] = placeholder()
%y : bf16[4096,4096] = placeholder()
%a = mm.default(%x, %y)
return (%a,)'
graph skinny <<<'%x : bf16[16,8192] = placeholder()
%w : bf16[8192,8192] = placeholder()
%t = t.default(%w)
%a = mm.default(%x, %t)
return (%a,)'

echo "$(date -u +%F), $(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem --format=csv,noheader 2>/dev/null ||
  echo 'no nvidia-smi'), sweep of $sweep"
bad=0
# The products first: their number of algorithms is the library's. A configuration takes as long as the slowest so far.
all=(square skinny add gelu small transpose permute rowsum rows1000 softmax longrows columns)
left=${#all[@]} begin=$SECONDS slowest_ms=0
for g in "${all[@]}"; do
  n=$sweep start_ms=$(date +%s%3N)
  if [ $slowest_ms -gt 0 ]; then
    n=$(((seconds - (SECONDS - begin)) * 1000 / left / slowest_ms))
    n=$((n < 8 ? 8 : n > sweep ? sweep : n))
  fi
  left=$((left - 1))
  "$build/stax" tune "$work/$g.stax" --target cuda --sweep "$n" >"$work/out" 2>"$work/err"
  rc=$? took_ms=$((($(date +%s%3N) - start_ms) / (n + 8)))
  case $g in square | skinny) ;; *) slowest_ms=$((took_ms > slowest_ms ? took_ms : slowest_ms)) ;; esac
  [ "$n" = "$sweep" ] || echo "$g: a sweep of $n, for want of time"
  if [ $rc != 0 ]; then
    echo "$g: $(tail -1 "$work/err")"
    bad=1
    continue
  fi
  # The table's rows: kernel, candidates, measured, us, us, the choice (several words), us, ratio, ratio.
  awk -v g="$g" '/^kernel +candidates/ { table = 1; next } /kernels with several/ { table = 0 }
    table { product = $1 ~ /^matmul_/
            verdict = (product || $(NF - 1) <= 1.10) && $NF <= 1.03 && $3 <= 8 ? "ok" : "NOT"
            printf "%-10s %-34s %d of %d  heuristic %9s us  chosen %9s us  best %9s us  %s  %s  %s\n", g, $1, $3, $2,
                   $4, $5, $(NF - 2), $(NF - 1), $NF, verdict
            if (verdict == "NOT") bad = 1 }
    END { exit bad }' "$work/out" || bad=1
  sed -n 's/^[^ ]*: \(chosen: .*\|sweep of .*\)/    \1/p' "$work/out"
  grep -E 'rejected|failed|measuring ends|not measured' "$work/out" | sed 's/^/    /'
done
exit $bad
