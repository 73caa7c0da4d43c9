#!/usr/bin/env bash
# The scripts for machines with a GPU, on one without: they say why they skip, and the graphs they use are graphs that
# compile. With a GPU this is `make check-gpu`'s business.
set -u
cd "$(dirname "$0")/../.."
. tests/e2e/lib.sh
. tests/gpu/env.sh
find_nvrtc
if find_gpu; then
  echo "skip: there is a GPU: make check-gpu"
  skipped=1
  finish
  exit
fi
ok "check.sh succeeds" tests/gpu/check.sh
says "it says why" "^skip: no GPU to run on: ."
says "and counts a skip" "^0 passed, 0 failed, 1 skipped$"
ok "bench_gpu.sh succeeds" tests/bench/bench_gpu.sh
says "it says why" "^skip: no GPU to run on: ."
STAX_CUDA=0
ok "a daemon" start_daemon
for f in tests/gpu/graphs/*.stax tests/bench/gpu/*.stax; do
  ok "$f" "$build/stax" compile "$f" --target cpu:x86-64-v3
done
finish
