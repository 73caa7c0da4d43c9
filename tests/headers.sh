#!/usr/bin/env bash
# Usage: tests/headers.sh FILE...  The headers that are installed, alone in a folder: each compiles by itself as C99,
# C11, C++11 and C++20 without a warning, and a C++ program calls the library's functions by their C names.
set -u
cd "$(dirname "$0")/.."
CC=${CC:-cc} CXX=${CXX:-c++}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$@" "$work" || exit 1
bad=0 seen=0
compile() { # FILE TEXT COMPILER...
  local name=$1 text=$2
  shift 2
  seen=$((seen + 1))
  printf '%s' "$text" | "$@" -Wall -Wextra -Wpedantic -Werror -I"$work" -c -o "$work/out.o" - ||
    { echo "headers: $name does not compile: $*"; bad=1; }
}
for f in "$work"/*.h; do
  h=$(basename "$f")
  for std in c99 c11; do compile "$h" "#include \"$h\"" $CC -x c -std=$std; done
  for std in c++11 c++20; do compile "$h" "#include \"$h\"" $CXX -x c++ -std=$std; done
done
compile stax.h '#include <stax.h>
#include <status.h>
const char *error_name(int e) { return stax_error_name(e); }
int dtype_bytes() { return stx_dtype_bytes(STX_F32) + stx_err_is_known(STX_E_INVALID); }' $CXX -x c++ -std=c++11
for symbol in stax_error_name stx_dtype_bytes stx_err_is_known; do
  nm "$work/out.o" | grep -q " U $symbol\$" || { echo "headers: C++ does not call $symbol by its C name"; bad=1; }
done
[ $bad = 0 ] && echo "headers: $seen compilations, C99 to C++20"
exit $bad
