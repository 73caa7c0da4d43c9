#!/usr/bin/env bash
# Matrix products on this machine's GPU, through cuBLASLt, against the same graph on the CPU. Without a GPU it says so,
# in one line, and succeeds. The last line is `N passed, N failed, N skipped`.
# Usage: matmul.sh [--target cuda:...]   TIMES=20: runs that are timed
set -u
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
. tests/gpu/env.sh
find_nvrtc
target=cuda
[ "${1:-}" = --target ] && target=$2
export STAX_SERVER=none
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# name, rtol, atol, graph: the CPU's result is what the GPU's must agree with
check() {
  local name=$1 rtol=$2 atol=$3 said
  printf '%b' "$4" >"$work/$name.stax"
  if ! said=$("$build/stax" run "$work/$name.stax" --seed 7 --out "$work/$name" 2>&1); then
    echo "FAILED $name: on the CPU: $said"
    failed=$((failed + 1))
  elif said=$("$build/stax" run "$work/$name.stax" --target "$target" --seed 7 --time "${TIMES:-20}" \
    --expect "y=$work/$name/y.npy" --rtol "$rtol" --atol "$atol" 2>&1); then
    echo "ok     $name: $(grep -iE 'median|us|ms' <<<"$said" | head -n 1)"
    passed=$((passed + 1))
  else
    echo "FAILED $name: $said"
    failed=$((failed + 1))
  fi
}

# TYPE RTOL ATOL
products() {
  local t=$1 p=" = placeholder()\n"
  check "$t-mm" "$2" "$3" "%a : $t[512,384]$p%b : $t[384,640]$p%y = mm.default(%a, %b)\nreturn (%y,)\n"
  check "$t-nt" "$2" "$3" "%a : $t[512,384]$p%b : $t[640,384]$p%t = t.default(%b)\n%y = mm.default(%a, %t)\nreturn (%y,)\n"
  check "$t-tn" "$2" "$3" "%a : $t[384,512]$p%b : $t[384,640]$p%t = t.default(%a)\n%y = mm.default(%t, %b)\nreturn (%y,)\n"
  check "$t-tt" "$2" "$3" "%a : $t[384,500]$p%b : $t[630,384]$p%t = t.default(%a)\n%u = t.default(%b)\n%y = mm.default(%t, %u)\nreturn (%y,)\n"
  check "$t-odd" "$2" "$3" "%a : $t[257,131]$p%b : $t[131,65]$p%y = mm.default(%a, %b)\nreturn (%y,)\n"
  check "$t-row" "$2" "$3" "%a : $t[1,1024]$p%b : $t[1024,777]$p%y = mm.default(%a, %b)\nreturn (%y,)\n"
  check "$t-long" "$2" "$3" "%a : $t[32,8192]$p%b : $t[8192,32]$p%y = mm.default(%a, %b)\nreturn (%y,)\n"
  check "$t-slice" "$2" "$3" "%a : $t[300,200]$p%b : $t[190,128]$p%s = slice.Tensor(%a, 1, 3, 193, 1)\n%y = mm.default(%s, %b)\nreturn (%y,)\n"
  check "$t-bmm" "$2" "$3" "%a : $t[12,128,64]$p%b : $t[12,128,64]$p%t = transpose.int(%b, 1, 2)\n%y = bmm.default(%a, %t)\nreturn (%y,)\n"
  check "$t-expand" "$2" "$3" "%a : $t[6,128,64]$p%b : $t[1,64,96]$p%e = expand.default(%b, [6, 64, 96])\n%y = bmm.default(%a, %e)\nreturn (%y,)\n"
  check "$t-bias" "$2" "$3" "%x : $t[4,128,256]$p%w : $t[512,256]$p%b : $t[512]$p%y = linear.default(%x, %w, %b)\nreturn (%y,)\n"
  check "$t-addmm" "$2" "$3" "%a : $t[130,96]$p%b : $t[96,77]$p%c : $t[77]$p%y = addmm.default(%c, %a, %b)\nreturn (%y,)\n"
  check "$t-linear" "$2" "$3" "%a : $t[4,128,256]$p%w : $t[512,256]$p%b : $t[512]$p%l = linear.default(%a, %w, %b)\n%y = relu.default(%l)\nreturn (%y,)\n"
}

if said=$(printf '%%a : f32[4] = placeholder()\n%%y = neg.default(%%a)\nreturn (%%y,)\n' >"$work/t.stax" &&
  "$build/stax" run "$work/t.stax" --target "$target" 2>&1); then
  products f32 1e-4 2e-3
  products f64 1e-12 1e-10
  products f16 2e-3 2e-2
  products bf16 1.6e-2 6e-2
  p=" = placeholder()\n"
  check i8-mm 0 0 "%a : i8[256,384]${p}%b : i8[384,256]${p}%c = _to_copy.default(%a, dtype=i32)\n%d = _to_copy.default(%b, dtype=i32)\n%y = mm.default(%c, %d)\nreturn (%y,)\n"
  check i8-nt 0 0 "%a : i8[256,384]${p}%b : i8[256,384]${p}%c = _to_copy.default(%a, dtype=i32)\n%d = _to_copy.default(%b, dtype=i32)\n%t = t.default(%d)\n%y = mm.default(%c, %t)\nreturn (%y,)\n"
  echo "$passed passed, $failed failed, 0 skipped"
else
  grep -oE 'no GPU to run on.*|CUDA targets need.*' <<<"$said" | head -n 1 | sed 's/^/skip: /'
  grep -qE 'no GPU to run on|CUDA targets need' <<<"$said" || printf '%s\n' "$said"
  echo "0 passed, 0 failed, 1 skipped"
fi
[ "$failed" = 0 ]
