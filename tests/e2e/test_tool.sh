#!/usr/bin/env bash
# The command line as a contract: exit codes, JSON, files, starting a server, working without one.
set -u
cd "$(dirname "$0")/../.."
. tests/e2e/lib.sh
stax=$build/stax
cat >"$work/g.stax" <<'TEXT'
%x : f32[4,8] = placeholder()
%y : f32[4,8] = placeholder()
%add : f32[4,8] = add.Tensor(%x, %y, alpha=1)
%relu : f32[4,8] = relu.default(%add)
return (%relu as 'r',)
TEXT
json() { # FILE EXPRESSION: over the parsed value j
  python3 -c 'import json,sys; j=json.load(open(sys.argv[1])); sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2"
}
keep() { cp "$work/out" "$work/last.json"; } # the last command's output, for json

# ---- usage ----
exits 2 "no command" "$stax"
exits 2 "an unknown command" "$stax" frobnicate
exits 2 "a command of later" "$stax" gc
exits 2 "an unknown flag" "$stax" compile "$work/g.stax" --frob
exits 2 "a flag without its value" "$stax" compile "$work/g.stax" --target
exits 2 "an unknown CPU target" "$stax" compile "$work/g.stax" --target cpu:x86-64-v9
exits 2 "an unknown target" "$stax" compile "$work/g.stax" --target tpu
exits 1 "an unknown GPU" "$stax" compile "$work/g.stax" --target cuda:sm_12
says "the known ones are listed" "sm_90a .h100-sxm, h200."
exits 2 "TLS" env STAX_SERVER=tls:host:1 "$stax" ping
says "TLS is named" "TLS is not offered"
exits 2 "no file" "$stax" compile
exits 1 "a missing file" "$stax" compile "$work/none.onnx"
"$stax" compile "$work/none.stax" --json >"$work/none.json" 2>"$work/err"
ok "a missing file is located" grep -q '"location":"[^"]*none.stax"' "$work/none.json"
exits 2 "dump without a stage" "$stax" dump "$work/g.stax"
exits 2 "a stage that is not there" "$stax" dump "$work/g.stax" --stage nosuch
says "the stages are listed" "basis, primitives, loops"
exits 2 "a stage of CUDA targets" "$stax" dump "$work/g.stax" --stage ptx
ok "a picture of the kernels" "$stax" dump "$work/g.stax" --stage kernels --format svg
says "as SVG" "</svg>"
ok "the same for Graphviz" "$stax" dump "$work/g.stax" --stage loops --format dot
says "as dot" "digraph stax"
exits 2 "a picture of a plan" "$stax" dump "$work/g.stax" --stage plan --format dot
says "what has pictures" "pictures show graph, basis, primitives"
exits 0 "help" "$stax" --help

# ---- the daemon's own command line ----
exits 2 "an unknown flag of staxd" "$build/staxd" --frob
says "the flag is named" "unknown flag '--frob'"
exits 2 "a socket in no folder" "$build/staxd" --listen "unix:$work/no/such/s"
says "the folder is named" "there is no folder $work/no/such"
ok "no folder was made" test ! -e "$work/no"
ok "settings" "$build/staxd" --show-config --workers 3
says "unit and source of a setting" '^# count; from flag; '
exits 2 "an unknown log level is told" env STAX_LOG=loud "$stax"
says "the levels are listed" "error, warn, info or debug"

# ---- no server ----
exits 3 "stats starts no server" "$stax" stats
exits 3 "ping starts no server" "$stax" ping
exits 3 "a named server that is not there" "$stax" compile "$work/g.stax"
export STAX_SERVER=none
: >"$work/empty.stax"
exits 1 "an empty text" "$stax" compile "$work/empty.stax"
says "an empty text says so" "the graph is empty"
ok "private compile" "$stax" compile "$work/g.stax" --json --out "$work/private"
cp "$work/out" "$work/private.json"
ok "private JSON" json "$work/private.json" 'not j["hit"] and not j["stored"] and len(j["kernels"]) == 1'
ok "private stats" "$stax" stats --format json
keep
ok "the daemon's names" json "$work/last.json" 'set(j) == {"requests","hits","misses","compiles","kernels_compiled"}'
ok "no path without --out" "$stax" compile "$work/g.stax" --json
keep
ok "null" json "$work/last.json" 'j["path"] is None'
# ---- CUDA targets: without a GPU, and where there is no NVRTC without cubins ----
ok "CUDA C" "$stax" dump "$work/g.stax" --target cuda:sm_90 --stage source
says "a kernel" "__global__"
if STAX_SERVER=none "$stax" compile "$work/g.stax" --target cuda:sm_90a:h200 --json >"$work/cuda.json" 2>"$work/err"; then
  ok "its launch table" json "$work/cuda.json" \
    "j['target'] == 'cuda:sm_90a:h200' and 'XBLOCK' in j['kernels'][0]['config'] and j['kernels'][0]['block'][0] % 32 == 0"
else
  ok "NVRTC is named" grep -q "CUDA targets need NVRTC" "$work/err"
fi
# $CUDA_HOME reaches the worker: what lies there is taken, were there another NVRTC or not.
mkdir -p "$work/home/lib64"
ln -s "$build/libstax.so" "$work/home/lib64/libnvrtc.so.13"
exits 1 "another \$CUDA_HOME" env CUDA_HOME="$work/home" "$stax" compile "$work/g.stax" --target cuda:sm_90a:h200
says "no NVRTC there" "CUDA targets need NVRTC"

for stage in graph basis primitives loops kernels plan source llvm asm; do
  ok "dump $stage" "$stax" dump "$work/g.stax" --stage $stage
done
# layered comparison, and operators one by one
printf '%%x : f32[4,6] = placeholder(strides=[1, 4])\n%%y : f32[4,6] = placeholder(strides=[0, 1])\n%%z = sub.Tensor(%%x, %%y)\n%%s = sum.dim_IntList(%%z, [1])\nreturn (%%z, %%s)\n' >"$work/strided.stax"
for f in g strided; do
  ok "compare $f" "$stax" compare "$work/$f.stax"
  says "the code is compared to the bit" "code         BIT   equal"
done

# Operators in place: code and oracle leave the same in the input; every output has a name of its own.
cat >"$work/inplace.stax" <<'TEXT'
%x : f32[6] = placeholder()
%s = sort.default(%x)
%a = add_.Scalar(%x, 1.0)
return (%s, %s:1, %a, %x)
TEXT
ok "run in place" "$stax" run "$work/inplace.stax" --out "$work/inplace"
grep -v '^wrote' "$work/out" >"$work/compiled"
for f in s s:1 a x x#2; do ok "output $f has a file" test -s "$work/inplace/$f.npy"; done
ok "interpreted in place" "$stax" run "$work/inplace.stax" --interpret
cp "$work/out" "$work/of-oracle"
ok "the same results" diff "$work/compiled" "$work/of-oracle"
ok "compared in place" "$stax" compare "$work/inplace.stax"
says "the code is compared to the bit" "code         BIT   equal"
ok "expected by name" "$stax" run "$work/inplace.stax" --expect "s:1=$work/inplace/s:1.npy" --expect "x#2=$work/inplace/x#2.npy"
ok "interpret" "$stax" run "$work/strided.stax" --interpret --out "$work/interpreted"
ok "as compiled" "$stax" run "$work/strided.stax" --expect z="$work/interpreted/z.npy" --expect s="$work/interpreted/s.npy"
ok "compile it" "$stax" compile "$work/strided.stax" --out "$work/artifact"
exits 2 "interpret an artifact" "$stax" run "$work"/artifact/*.so --interpret
says "a graph is needed" "needs a graph file"
printf '%%x : f32[1000000000000] = placeholder()\n%%y = relu.default(%%x)\nreturn (%%y,)\n' >"$work/huge.stax"
exits 1 "a tensor of terabytes" "$stax" run "$work/huge.stax"
printf '%%x : f32[4] = placeholder()\nreturn (%%x as '"'"'a\\x1b[2Jb'"'"',)\n' >"$work/escape.stax"
ok "an output with a terminal's escape in its name" "$stax" run "$work/escape.stax"
says "it is not obeyed" '^a\?\[2Jb: f32'
exits 1 "a tensor of terabytes, again" "$stax" run "$work/huge.stax"
says "which, and the limit" "input 'x': a tensor f32\[1000000000000\] takes more than"
printf '%%x : f32[4] = placeholder()\n%%a = add.Tensro(%%x, %%x)\nreturn (%%a,)\n' >"$work/typo.stax"
exits 1 "a misspelt operator" "$stax" compile "$work/typo.stax"
says "the file and the line are named" "typo.stax:2:6: "
says "the nearest overload is named" "did you mean 'add.Tensor'"
ok "allowing fallbacks" "$stax" compile "$work/g.stax" --allow-fallback
says "nothing falls back" "nothing falls back"
exits 1 "private training" "$stax" compile "$work/g.stax" --training
ok "private ping" "$stax" ping
exits 3 "no staxd to be found" env STAX_STAXD=/nonexistent "$stax" ping

# ---- a server ----
export STAX_SERVER=unix:$work/stax.sock
start_daemon || exit 1
exits 1 "an empty text, of a server" "$stax" compile "$work/empty.stax"

ok "compile" "$stax" compile "$work/g.stax" --json --out "$work/served"
cp "$work/out" "$work/miss.json"
ok "compile again" "$stax" compile "$work/g.stax" --json
cp "$work/out" "$work/hit.json"
ok "a miss, stored" json "$work/miss.json" 'not j["hit"] and j["stored"] and len(j["key"]) == 64'
ok "then a hit" json "$work/hit.json" 'j["hit"] and j["reason"] and j["bytes_min"] == 384'
ok "kernel fields" json "$work/miss.json" \
  'all(set(k) >= {"name","grid","block","shared_bytes","registers","spills","config","chosen_by"} and "grid=" in k["config"] and k["chosen_by"] == "heuristic" for k in j["kernels"])'
ok "the same key without a server" json "$work/private.json" \
  "j['key'] == '$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["key"])' "$work/miss.json")'"
ok "the same bytes without a server" cmp "$work/private/g.so" "$work/served/g.so"
exits 1 "an error as JSON" "$stax" compile "$work/none.onnx" --json
keep
ok "error fields" json "$work/last.json" 'set(j) == {"code","stage","node","location","text"} and j["code"] == "NOT_FOUND"'
ok "stats as JSON" "$stax" stats --format json
keep
ok "stats count" json "$work/last.json" 'j["hits"] == 1 and j["misses"] == 1'
ok "stats for Prometheus" "$stax" stats --format prometheus
says "metric names" '^stax_[a-z0-9_]+ [0-9]+$'
ok "stats to zero" "$stax" stats --zero
ok "stats after" "$stax" stats --format json
keep
ok "zeroed" json "$work/last.json" 'j["hits"] == 0'
exits 1 "training" "$stax" compile "$work/g.stax" --training
says "training is named" "not offered by this version yet"
exits 1 "dynamic sizes" "$stax" compile "$work/g.stax" --dynamic
says "dynamic sizes are named" "not offered by this version yet"

# ---- run ----
ok "run with random inputs" "$stax" run "$work/g.stax" --out "$work/first" --seed 3
says "the seed is told" "seed 3"
ok "the same seed again" "$stax" run "$work/g.stax" --expect r="$work/first/r.npy" --seed 3 --rtol 0 --atol 0
ok "the artifact alone" "$stax" run "$work/served/g.so" --input 0="$work/first/r.npy" --input 1="$work/first/r.npy" --out "$work/alone"
exits 1 "another seed differs" "$stax" run "$work/g.stax" --expect r="$work/first/r.npy" --seed 4
says "the difference is told" "element [0-9]+ is"
exits 2 "an input that is not there" "$stax" run "$work/g.stax" --input q="$work/first/r.npy"
says "the inputs are listed" "inputs: x, y"
for command in compile run compare tune; do
  exits 2 "an input given twice to $command" "$stax" $command "$work/g.stax" --input x="$work/first/r.npy" --input x="$work/first/r.npy"
  says "the input is named" "'x' has a value already"
done
exits 2 "an output that is not there" "$stax" run "$work/g.stax" --expect q="$work/first/r.npy"
says "the outputs are listed" "outputs: r"
exits 2 "an --out that cannot be made" "$stax" compile "$work/g.stax" --out /proc/none
exits 1 "a full standard output" bash -c "'$stax' compile '$work/g.stax' >/dev/full"
exits 5 "fsck beside a daemon" "$stax" fsck
says "what to do" "stop the daemon"
exits 1 "fsck of nothing" "$stax" fsck --cache-dir "$work/nothing"
says "it is named" "no cache directory"
# A damaged store: nothing of it reaches a terminal raw; one repair, and it is sound.
mkdir -m 700 "$work/hurt"
cp -r "$work/cache/." "$work/hurt/"
python3 - "$work/hurt/db/stax.db" <<'PY'
import sys
f = open(sys.argv[1], "r+b")
f.seek(100)
f.write(b"\x1b[31m\x07" * 2000)
PY
exits 1 "fsck of a damaged store" "$stax" fsck --cache-dir "$work/hurt"
says "it is not clean" "not clean$"
ok "no byte of it that a terminal obeys" bash -c "! LC_ALL=C grep -q $'[\001-\010\013-\037\177-\377]' '$work/out' '$work/err'"
ok "a repair that succeeds" "$stax" fsck --repair --cache-dir "$work/hurt"
says "it is told" "repaired$"
ok "fsck after it" "$stax" fsck --cache-dir "$work/hurt"
says "all is well" "clean$"
exits 2 "a configuration that never ends" timeout 120 "$build/staxd" --config /dev/zero
says "it is named" "/dev/zero: is not a regular file"
exits 2 "a namespace that is malformed" env STAX_NAMESPACE="a b" "$stax" compile "$work/g.stax"
python3 - "$work/short.npy" <<'PY'
import sys
h = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
h += b" " * (63 - (10 + len(h)) % 64) + b"\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + len(h).to_bytes(2, "little") + h + bytes(16))
PY
exits 1 "an input of another shape" "$stax" run "$work/g.stax" --input x="$work/short.npy"
says "the input is named" "'x'"
ok "timing" "$stax" run "$work/g.stax" --time 10
says "the median is told" "median"
cat >"$work/linear.stax" <<'EOF'
%x : f32[8,96] = placeholder()
%w : f32[320,96] = placeholder(param=True)
%y = linear.default(%x, %w)
return (%y,)
EOF
ok "timing with weights" "$stax" run "$work/linear.stax" --time 10
says "they are packed once" "^prepared: weights packed into 0.1 MB"
head -c 300 /dev/urandom >"$work/noise.so"
printf '\177ELF' | dd of="$work/noise.so" conv=notrunc status=none
exits 1 "noise as an artifact" "$stax" run "$work/noise.so"
ok "a closed pipe is quiet" bash -c "'$stax' compile '$work/g.stax' | true; exit \${PIPESTATUS[0]}"

# ---- the server goes away ----
kill -KILL "$daemon_pid"
wait "$daemon_pid" 2>/dev/null
daemon_pid=
exits 3 "a server that was killed" "$stax" compile "$work/g.stax"
stop_daemon
ok "where it listened was logged" grep -q "listening on unix:$work/stax.sock" "$work/staxd.log"

# ---- starting one for the user ----
unset STAX_SERVER
exits 3 "not inside a batch job" env SLURM_JOB_ID=7 "$stax" compile "$work/g.stax"
exits 3 "not when forbidden" env STAX_AUTOSTART=0 "$stax" compile "$work/g.stax"
pids=()
for i in 1 2 3 4 5 6 7 8; do
  "$stax" compile "$work/g.stax" --json >"$work/many.$i" 2>"$work/many.err.$i" &
  pids+=($!)
done
for p in "${pids[@]}"; do ok "eight at once" wait "$p"; done
ok "one server for all" "$stax" stats --format json
keep
ok "it compiled once or found it stored" json "$work/last.json" 'j["requests"] == 8 and j["compiles"] <= 1'
# Its process id is told by nobody but the lock of its socket.
server=$(fuser "$work/run/stax/stax.sock.lock" 2>/dev/null | tr -d ' ')
[ -n "$server" ] || server=$(for p in /proc/[0-9]*; do
  tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -q -- "--listen unix:$work/run/stax/stax.sock" && echo "${p#/proc/}"
done | sort -n | head -n 1)
ok "a session of its own" test "$(ps -o sid= -p "$server" | tr -d ' ')" = "$server"
kill "$server"
for _ in $(seq 1200); do kill -0 "$server" 2>/dev/null || break; sleep 0.1; done

finish
