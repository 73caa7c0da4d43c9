#!/usr/bin/env bash
# `make bench`: benchmarks against peers in the same run; ratios above 1 favour stax. Never part of the tests.
set -u
cd "$(dirname "$0")/../.."
. tests/e2e/lib.sh
printf 'machine: %s, %s cores, Linux %s\ndate: %s\npeer: %s\n\n' \
  "$(lscpu | sed -n 's/^Model name: *//p' | head -1)" "$(nproc)" "$(uname -r)" "$(date -u +%F)" \
  "$(gcc --version | head -1)"
start_daemon || exit 1
"$build/tests/bench/bench_compile" || exit 1
"$build/tests/bench/bench_fusion" || exit 1
