#!/usr/bin/env bash
# stax tune, end to end: a daemon that compiles for a GPU, a driver without one (tests/fake/cuda.c) whose times are
# drawn from each cubin. What is measured once is known to every later process, on an equal device only.
set -u
STAX_CUDA=1
. "$(dirname "$0")/lib.sh"
export LD_LIBRARY_PATH=$build/tests/fake FAKE_CUDA_LOG=$work/launches
t=(--target cuda:sm_90a:h200)

cat >"$work/rows.stax" <<'END'
%x : f32[256,1000] = placeholder()
%s = softmax.int(%x, -1)
return (%s,)
END
cat >"$work/line.stax" <<'END'
%x : f32[100000] = placeholder()
%a = tanh.default(%x)
return (%a,)
END
sed 's/tanh/sigmoid/' "$work/line.stax" >"$work/changed.stax"

start_daemon || exit 1
"$build/stax" compile "$work/rows.stax" "${t[@]}" >"$work/out" 2>"$work/err"
if grep -q 'libnvrtc' "$work/err"; then
  echo "skip: no NVRTC here: $(head -1 "$work/err")"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi

launches() { wc -l <"$FAKE_CUDA_LOG"; }

# Measured once; then known, in other processes and after a restart of the daemon (LC-03, LC-08): a run's launches only.
tells "tune measures" ': 1 measured, 0 known' "$build/stax" tune "$work/line.stax" "${t[@]}"
for i in 1 2; do
  before=$(launches)
  tells "tune knows, round $i" ': 0 measured, 1 known' "$build/stax" tune "$work/line.stax" "${t[@]}"
  ok "no launch but the run's own" [ $(($(launches) - before)) = 1 ]
  stop_daemon
  start_daemon || exit 1
done
# CA-08: sizes are part of a kernel: another length is another record.
sed 's/100000/200000/' "$work/line.stax" >"$work/longer.stax"
tells "another shape is measured" ': 1 measured, 0 known' "$build/stax" tune "$work/longer.stax" "${t[@]}"
tells "another kernel is measured" ': 1 measured, 0 known' "$build/stax" tune "$work/changed.stax" "${t[@]}"
tells "another device is measured" ': 1 measured, 0 known' \
  env FAKE_CUDA_NAME="NVIDIA H100 80GB HBM3" "$build/stax" tune "$work/line.stax" "${t[@]}"
stop_daemon
tells "fsck knows the records" ' 4 tune records,' "$build/staxd" --fsck --cache-dir "$work/cache"
start_daemon || exit 1

# The reply of a compile carries the measured choice, and libstax launches it: its block, its time.
"$build/stax" tune "$work/line.stax" "${t[@]}" --json >"$work/json" 2>/dev/null
chosen=$(field chosen) chosen_us=$(field chosen_us)
threads=${chosen##*threads=} threads=${threads%% *}
"$build/stax" compile "$work/line.stax" "${t[@]}" --json >"$work/json"
ok "the answer has the choice" [ "$(field config)" = "$chosen" ]
ok "and says who chose" [ "$(field chosen_by)" = measured ]
ok "and its time" [ "$(field median_us)" = "$chosen_us" ]
"$build/stax" run "$work/line.stax" "${t[@]}" >/dev/null 2>&1
ns=$(awk -v us="$chosen_us" 'BEGIN { printf "%.0f", us * 1000 }')
ok "the choice is launched" grep -qE "block $threads ns $ns\$" <(tail -1 "$FAKE_CUDA_LOG")

# An artifact from a file: its kernels are those the server has compiled.
ok "compile --out" "$build/stax" compile "$work/line.stax" "${t[@]}" --out "$work/so"
tells "an artifact's kernels are known" ': 0 measured, 1 known' "$build/stax" tune "$work/so/line.so" "${t[@]}"
tells "a sweep compares" 'chosen/best' "$build/stax" tune "$work/line.stax" "${t[@]}" --sweep 4

# A job's ranks go by what its first one saw, whatever is measured meanwhile.
STAX_JOB=j1 "$build/stax" compile "$work/rows.stax" "${t[@]}" --json >"$work/json"
ok "nothing is known yet" [ "$(field chosen_by)" = heuristic ]
tells "measured beside the job" ': 1 measured, 0 known' "$build/stax" tune "$work/rows.stax" "${t[@]}"
STAX_JOB=j1 "$build/stax" compile "$work/rows.stax" "${t[@]}" --json >"$work/json"
ok "the job's choice stays" [ "$(field chosen_by)" = heuristic ]
STAX_JOB=j2 "$build/stax" compile "$work/rows.stax" "${t[@]}" --json >"$work/json"
ok "a later job has the measured one" [ "$(field chosen_by)" = measured ]

# External calls: the library's algorithms and the step's kernel are measured, known to later processes, and made.
cat >"$work/product.stax" <<'END'
%x : bf16[256,512] = placeholder()
%w : bf16[384,512] = placeholder()
%t = t.default(%w)
%y = mm.default(%x, %t)
return (%y,)
END
mkdir -p "$work/cuda/lib64"
ln -s "$build/tests/fake/libcublasLt.so.13" "$work/cuda/lib64/"
home=${CUDA_HOME-}
export CUDA_HOME=$work/cuda # where libstax looks first; the daemon has its NVRTC
made() { "$build/stax" run "$work/product.stax" "${t[@]}" >/dev/null 2>&1; tail -1 "$FAKE_CUDA_LOG" | grep -oE '^[a-z]+ (algorithm [0-9]+)?'; }
ok "unmeasured, the first algorithm" [ "$(made)" = "matmul algorithm 0" ]
STAX_JOB=j3 "$build/stax" run "$work/product.stax" "${t[@]}" >/dev/null 2>&1
tells "a call is measured" '^matmul_bf16_384x256x512_tn +4 +4 ' "$build/stax" tune "$work/product.stax" "${t[@]}"
cp "$work/out" "$work/measured"
ok "once" grep -q ': 1 measured, 0 known' "$work/measured"
ok "no way differs" bash -c "! grep -q rejected '$work/measured'"
tells "and known" ': 0 measured, 1 known' "$build/stax" tune "$work/product.stax" "${t[@]}"
"$build/stax" tune "$work/product.stax" "${t[@]}" --json >"$work/json"
case $(field chosen) in
kernel*) want='launch ' ;;
*) want="matmul algorithm $(field chosen | grep -oE 'algo=[0-9]+' | cut -d= -f2)" ;;
esac
ok "the choice is made by later processes" [ "$(made)" = "$want" ]
ok "not by a job that had begun" [ "$(STAX_JOB=j3 made)" = "matmul algorithm 0" ]
ok "by a job that begins" [ "$(STAX_JOB=j4 made)" = "$want" ]
export CUDA_HOME=$home
[ -n "$home" ] || unset CUDA_HOME

# Without a server: a private worker, timings of this process.
tells "no server" ': 1 measured, 0 known' env STAX_SERVER=none STAX_STAXD="$build/staxd" \
  "$build/stax" tune "$work/line.stax" "${t[@]}"

exits 2 "tune without a file" "$build/stax" tune
exits 2 "tune of a CPU target" "$build/stax" tune "$work/line.stax" --target cpu:x86-64-v2
finish
