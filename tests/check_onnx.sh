#!/usr/bin/env bash
# `make check-onnx ONNX_TESTS=DIR`: any folder of ONNX backend tests, with a private daemon.
set -u
cd "$(dirname "$0")/.."
dir=${1:-}
if [ ! -d "$dir" ]; then
  echo "usage: make check-onnx ONNX_TESTS=DIR (a folder whose subfolders hold model.onnx)" >&2
  exit 2
fi
dir=$(realpath "$dir")
. tests/e2e/lib.sh
start_daemon || exit 1
"$build/stax" check-onnx "$dir" --jobs 2
