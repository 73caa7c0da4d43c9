#!/usr/bin/env bash
# `make bench`: benchmarks against peers in the same run; ratios above 1 favour stax. Never part of the tests.
# BENCH_CASES="exp* sgemm*": only those of the table against torch (bench_cpu.sh), and nothing else.
set -u
cd "$(dirname "$0")/../.."
if [ -n "${BENCH_CASES:-}" ]; then
  set -f
  # shellcheck disable=SC2086
  exec tests/bench/bench_cpu.sh $BENCH_CASES
fi
. tests/e2e/lib.sh
printf 'machine: %s, %s cores, Linux %s\ndate: %s\npeer: %s\n\n' \
  "$(lscpu | sed -n 's/^Model name: *//p' | head -1)" "$(nproc)" "$(uname -r)" "$(date -u +%F)" \
  "$(gcc --version | head -1)"
start_daemon || exit 1
"$build/tests/bench/bench_compile" || exit 1
printf '\ncompile time and graph size (processor time; the ratio must stay below 1.5)\n'
"$build/tests/bench/bench_linear" || exit 1
if [ -r "${ONNX_CORPUS:-}" ]; then
  tar -xzf "$ONNX_CORPUS" -C "$work" models/resnet50/model.onnx &&
    (cd "$work" && "$build/tests/bench/bench_linear" models/resnet50/model.onnx) || exit 1
fi
"$build/tests/bench/bench_fusion" || exit 1
printf '\nweights packed in every run and packed once\n'
"$build/tests/bench/bench_prepare" || exit 1
printf '\ncold compiles for a GPU, without one here\n'
stop_daemon
STAX_CUDA=1 start_daemon || exit 1
python3 tests/bench/bench_models.py "12 gpt-2 blocks" >"$work/gpt2_12_blocks.stax" || exit 1
STAX_STAXD=$build/staxd "$build/tests/bench/bench_cuda" tests/bench/gpu/*.stax "$work/gpt2_12_blocks.stax"
printf '\n'
tests/bench/bench_cpu.sh
