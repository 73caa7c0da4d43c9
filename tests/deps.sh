#!/usr/bin/env bash
# Installs every Debian package the build and the tests need, or says what is missing.
# Usage: tests/deps.sh [--check]   (--check only tells; exit 1 when something is missing)
set -u
packages="gcc g++ make pkg-config protobuf-compiler protobuf-c-compiler libprotobuf-c-dev libonnx-dev
  libuv1-dev libsqlite3-dev sqlite3 libzstd-dev llvm-19-dev liblld-19-dev libssl-dev libseccomp-dev
  libisl-dev libcmocka-dev clang clang-tidy clang-format libclang-rt-14-dev python3"
missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
if [ "${1:-}" = --check ]; then
  echo "missing Debian packages:$missing" >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then as_root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root="sudo"
else
  printf 'make deps needs root (or sudo without a password). Missing packages:\n%s\nAs root, run:\n  apt-get install -y%s\n' \
    "$missing" "$missing" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
echo "installing:$missing"
$as_root apt-get update -qq || echo "apt-get update failed; trying with the lists at hand" >&2
# shellcheck disable=SC2086
if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; then
  still=""
  for p in $missing; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || still="$still $p"
  done
  echo "could not install:$still (on Debian 12 llvm-19 and lld-19 are in the main archive)" >&2
  exit 1
fi
