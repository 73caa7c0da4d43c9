#!/usr/bin/env bash
# The CPU table of `make bench`: bench_cpu.py (it says how it measures; --help) in a virtual environment in the build
# folder, made from PyPI on first use; BENCH_PYTHON=FILE takes another Python that has torch and numpy.
# Writes build/bench/cpu.json and cpu.svg. `--json tests/bench/cpu.json` renews the committed figures.
# Usage: bench_cpu.sh [OPTION...] [CASE...]
set -u
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
. tests/e2e/lib.sh
python=${BENCH_PYTHON:-$build/bench-venv/bin/python}
if ! "$python" -c 'import torch, numpy' 2>/dev/null; then
  if [ -n "${BENCH_PYTHON:-}" ]; then
    echo "$python has no torch or no numpy" >&2
    exit 1
  fi
  echo "making $build/bench-venv: torch and numpy from PyPI (some GB, once)"
  if ! python3 -m venv "$build/bench-venv"; then
    echo "no virtual environment: install python3-venv, or name a Python with torch: BENCH_PYTHON=FILE" >&2
    exit 1
  fi
  "$build/bench-venv/bin/pip" install --quiet torch numpy setuptools || exit 1
fi
mkdir -p "$build/bench"
start_daemon || exit 1
"$python" tests/bench/bench_cpu.py --json "$build/bench/cpu.json" --plot "$build/bench/cpu.svg" "$@"
rc=$?
echo "written: $build/bench/cpu.json, $build/bench/cpu.svg"
exit $rc
