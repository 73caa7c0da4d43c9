#!/usr/bin/env bash
# Bad input of every kind: a clear error, the right exit code, and the daemon lives with bounded memory.
set -u
cd "$(dirname "$0")/../.."
. tests/e2e/lib.sh
start_daemon || exit 1
stax=$build/stax
bad() { "$build/tests/e2e/bad_onnx" "$1" "$work/$1.onnx"; }

for kind in cycle unknown-op rank dtype huge climb nodes; do bad $kind || exit 1; done
exits 1 "a cycle" "$stax" compile "$work/cycle.onnx"
says "a cycle names the value" "'b'"
exits 1 "an unknown operator" "$stax" compile "$work/unknown-op.onnx"
says "an unknown operator is named" "FrobnicateTensor"
exits 1 "a rank mismatch" "$stax" compile "$work/rank.onnx"
says "a rank or size mismatch names the node" "MatMul|mm|matmul"
exits 1 "a dtype mismatch" "$stax" compile "$work/dtype.onnx"
says "a dtype mismatch names the operator" "And|logical_and"
exits 1 "a tensor of 2^40 elements" "$stax" compile "$work/huge.onnx"
says "a huge tensor names the limit" "limit|too large|exceed"
exits 1 "external data that climbs out" "$stax" compile "$work/climb.onnx"
says "a climbing path is named" "\.\./|outside|external"
exits 1 "millions of nodes" "$stax" compile "$work/nodes.onnx"
says "too many nodes names a limit" "limit|too large|memory|exceed"
rm -f "$work/nodes.onnx"

# The same in text form, with line and column.
printf '%%x : f32[2,3] = placeholder()\n%%y = add.Tensor(%%x, %%z)\nreturn (%%y,)\n' >"$work/undef.stax"
exits 1 "an undefined name in text" "$stax" compile "$work/undef.stax"
says "line and column" "2:"
printf '%%x : f32[2,3] = placeholder()\n%%y = frob.Tensor(%%x)\nreturn (%%y,)\n' >"$work/op.stax"
exits 1 "an unknown overload in text" "$stax" compile "$work/op.stax"
says "it is named" "frob.Tensor"
printf '%%x : f32[2,3] = placeholder()\n%%y : f32[4,5] = placeholder()\n%%z = add.Tensor(%%x, %%y)\nreturn (%%z,)\n' >"$work/shape.stax"
exits 1 "shapes that do not broadcast" "$stax" compile "$work/shape.stax"
says "the sizes are named" "3.*5|5.*3|broadcast"
chain() { # NODES: a chain of relu, one line a node
  awk -v n="$1" 'BEGIN { print "%x : f32[4] = placeholder()"; p = "%x"
    for (i = 0; i < n; i++) { q = sprintf("%%n%x", i); print q "=relu.default(" p ")"; p = q }
    print "return (" p ",)" }'
}
chain 2100000 >"$work/many.stax"
exits 1 "two million nodes of text" "$stax" compile "$work/many.stax"
says "a limit is named" "limit|too large|MiB|exceed|more than"
chain 10000000 >"$work/many.stax"
exits 1 "a ten-million-node text" "$stax" compile "$work/many.stax"
says "a limit is named" "limit|too large|MiB|exceed|more than"
rm -f "$work/many.stax"
head -c 5000 /dev/urandom >"$work/noise.onnx"
exits 1 "noise as ONNX" "$stax" compile "$work/noise.onnx"
exits 1 "noise as text" sh -c "head -c 5000 /dev/urandom >'$work/noise.stax'; '$stax' compile '$work/noise.stax'"
exits 1 "an empty file" sh -c ": >'$work/empty.onnx'; '$stax' compile '$work/empty.onnx'"

# Usage, connection and other exit codes.
exits 2 "an unknown command" "$stax" frobnicate
exits 2 "an unknown flag" "$stax" compile --frobnicate x
exits 2 "a missing argument" "$stax" compile
exits 3 "no server" env STAX_SERVER=unix:"$work/nothing.sock" "$stax" stats
exits 2 "a target that does not exist" "$stax" compile "$work/shape.stax" --target cpu:x86-64-v9
exits 1 "CUDA is said to be missing" "$stax" compile "$work/op.stax" --target cuda

ok "raw frames" "$build/tests/e2e/hostile" "$daemon_pid"
tail -n 3 "$work/out"
ok "the daemon still compiles" sh -c "printf '%%x : f32[4] = placeholder()\n%%y = relu.default(%%x)\nreturn (%%y,)\n' >'$work/good.stax'; '$stax' compile '$work/good.stax'"
stop_daemon
ok "an orderly end" test "$daemon_rc" = 0

# A file size limit, as batch systems set one: the store fills up, the daemon goes on.
limited() { # NUMBER: a graph of its own
  printf '%%x : f32[64] = placeholder()\n%%y = add.Scalar(%%x, %s)\nreturn (%%y,)\n' "$1" >"$work/limited.stax"
  "$stax" compile "$work/limited.stax" --json
}
fill() { # until something is not stored any more
  for i in $(seq 100); do
    limited "$i" >"$work/limited.json" || return 1
    grep -qE '"stored": ?false' "$work/limited.json" && return 0
  done
  return 1
}
limit=$(ulimit -S -f)
ulimit -S -f 500
ok "a daemon with a file size limit starts" start_daemon
ulimit -S -f "$limit"
ok "what does not fit is answered all the same" fill
ok "and the daemon lives" limited 1000
stop_daemon
ok "an orderly end under a limit" test "$daemon_rc" = 0
finish
