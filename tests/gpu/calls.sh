#!/usr/bin/env bash
# Matrix products on this machine's GPU, through cuBLASLt, and convolutions and attention, through cuDNN, against the same
# graphs on the CPU; of cuDNN's every engine that is listed against the kernels too. Attention is compiled with --fast. Without a GPU it says so, in one
# line, and succeeds. The last line is `N passed, N failed, N skipped`.
# Usage: calls.sh products|convolutions|attention [--target cuda:...]   TIMES=20: runs that are timed
set -u
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
. tests/gpu/env.sh
find_nvrtc
target=cuda
part=${1:-}
case $part in
products | convolutions | attention) ;;
*)
  echo "calls.sh: products, convolutions or attention" >&2
  exit 2
  ;;
esac
[ "${2:-}" = --target ] && target=$3
export STAX_SERVER=none
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 fast=()

# name, rtol, atol, graph: the CPU's result is what the GPU's must agree with
check() {
  local name=$1 rtol=$2 atol=$3 said
  printf '%b' "$4" >"$work/$name.stax"
  if ! said=$("$build/stax" run "$work/$name.stax" --seed 7 --out "$work/$name" 2>&1); then
    echo "FAILED $name: on the CPU: $said"
    failed=$((failed + 1))
  elif said=$("$build/stax" run "$work/$name.stax" --target "$target" "${fast[@]}" --seed 7 --time "${TIMES:-20}" \
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

all_products() {
  local p=" = placeholder()\n"
  products f32 1e-4 2e-3
  products f64 1e-12 1e-10
  products f16 2e-3 2e-2
  products bf16 1.6e-2 6e-2
  check i8-mm 0 0 "%a : i8[256,384]${p}%b : i8[384,256]${p}%c = _to_copy.default(%a, dtype=i32)\n%d = _to_copy.default(%b, dtype=i32)\n%y = mm.default(%c, %d)\nreturn (%y,)\n"
  check i8-nt 0 0 "%a : i8[256,384]${p}%b : i8[256,384]${p}%c = _to_copy.default(%a, dtype=i32)\n%d = _to_copy.default(%b, dtype=i32)\n%t = t.default(%d)\n%y = mm.default(%c, %t)\nreturn (%y,)\n"
}

# check, then the engines against the kernel: none may differ, and where cuDNN is there it lists some.
engines() {
  local said
  check "$@"
  if ! said=$("$build/stax" tune "$work/$1.stax" --target "$target" "${fast[@]}" 2>&1) || grep -qE 'rejected|measuring ends' <<<"$said"; then
    echo "FAILED $1: $(grep -E 'rejected|measuring ends|stax:' <<<"$said" | head -n 3)"
    failed=$((failed + 1))
  elif ! grep -q dnn <<<"$said"; then
    echo "       $1: no engine of cuDNN: $(grep -E 'instead|cuDNN' <<<"$said" | head -n 1)"
    without=$((without + 1))
  else
    echo "       $(grep -E '^(conv|attention)_' <<<"$said" | head -n 1)"
  fi
}

# TYPE RTOL ATOL
convolutions() {
  local t=$1 p=" = placeholder()\n" r="\nreturn (%y,)\n"
  local c="%y = convolution.default(%x, %w, None,"
  engines "$t-3x3" "$2" "$3" "%x : $t[4,32,28,28]$p%w : $t[48,32,3,3]$p$c [1,1], [1,1], [1,1], False, [0,0], 1)$r"
  engines "$t-1x1-s2" "$2" "$3" "%x : $t[4,64,28,28]$p%w : $t[96,64,1,1]$p$c [2,2], [0,0], [1,1], False, [0,0], 1)$r"
  engines "$t-7x7-s2" "$2" "$3" "%x : $t[2,3,64,64]$p%w : $t[32,3,7,7]$p$c [2,2], [3,3], [1,1], False, [0,0], 1)$r"
  engines "$t-last" "$2" "$3" "%x : $t[4,32,28,28] = placeholder(strides=[25088,1,896,32])\n%w : $t[48,32,3,3] = placeholder(strides=[288,1,96,32])\n$c [1,1], [1,1], [1,1], False, [0,0], 1)$r"
  engines "$t-groups" "$2" "$3" "%x : $t[4,32,28,28]$p%w : $t[64,8,3,3]$p$c [1,1], [1,1], [1,1], False, [0,0], 4)$r"
  engines "$t-depth" "$2" "$3" "%x : $t[8,64,28,28]$p%w : $t[64,1,3,3]$p$c [1,1], [1,1], [1,1], False, [0,0], 64)$r"
  engines "$t-dilated" "$2" "$3" "%x : $t[4,32,28,28]$p%w : $t[48,32,3,3]$p$c [1,1], [2,2], [2,2], False, [0,0], 1)$r"
  engines "$t-line" "$2" "$3" "%x : $t[8,32,500]$p%w : $t[48,32,5]$p$c [2], [2], [1], False, [0], 1)$r"
  engines "$t-cube" "$2" "$3" "%x : $t[2,16,12,12,12]$p%w : $t[32,16,3,3,3]$p$c [1,1,1], [1,1,1], [1,1,1], False, [0,0,0], 1)$r"
  engines "$t-odd" "$2" "$3" "%x : $t[3,5,33,31]$p%w : $t[7,5,3,2]$p$c [1,2], [0,1], [2,1], False, [0,0], 1)$r"
  engines "$t-slice" "$2" "$3" "%x0 : $t[4,32,30,31]$p%x = slice.Tensor(%x0, -1, 2, 30, 1)\n%w : $t[48,32,3,3]$p$c [1,1], [1,1], [1,1], False, [0,0], 1)$r"
  engines "$t-bias" "$2" "$3" "%x : $t[4,32,28,28]$p%w : $t[48,32,3,3]$p%b : $t[48]$p%y = convolution.default(%x, %w, %b, [1,1], [1,1], [1,1], False, [0,0], 1)$r"
  # Halves between two layers are rounded to one neighbour or the other, and summed again.
  engines "$t-relu" "$2" "${3/-2/-1}" "%x : $t[4,32,28,28]$p%w : $t[32,32,3,3]$p%b : $t[32]$p%z = convolution.default(%x, %w, %b, [1,1], [1,1], [1,1], False, [0,0], 1)\n%q = relu.default(%z)\n%v = convolution.default(%q, %w, %b, [1,1], [1,1], [1,1], False, [0,0], 1)\n%y = relu.default(%v)$r"
  engines "$t-transposed" "$2" "$3" "%x : $t[4,32,14,14]$p%w : $t[32,48,3,3]$p$c [2,2], [1,1], [1,1], True, [1,1], 1)$r"
  engines "$t-transposed-line" "$2" "$3" "%x : $t[8,32,300]$p%w : $t[32,48,5]$p$c [3], [1], [1], True, [2], 1)$r"
  engines "$t-transposed-cube" "$2" "$3" "%x : $t[2,16,7,7,7]$p%w : $t[16,24,3,3,3]$p$c [2,2,2], [1,1,1], [1,1,1], True, [0,0,0], 1)$r"
  engines "$t-transposed-groups" "$2" "$3" "%x : $t[4,32,14,14]$p%w : $t[32,12,3,3]$p$c [2,1], [1,2], [1,2], True, [1,0], 4)$r"
  engines "$t-transposed-bias" "$2" "${3/-2/-1}" "%x : $t[4,32,14,14]$p%w : $t[32,48,4,4]$p%b : $t[48]$p%z = convolution.default(%x, %w, %b, [2,2], [1,1], [1,1], True, [0,0], 1)\n%q = relu.default(%z)\n%v : $t[32,48,3,3]$p%y = convolution.default(%q, %v, None, [1,1], [1,1], [1,1], False, [0,0], 1)$r"
}

# TYPE RTOL ATOL
attentions() {
  local t=$1 p=" = placeholder()\n" r="\nreturn (%y,)\n" a="%y = scaled_dot_product_attention.default(%q, %k, %v, None, 0.0,"
  engines "$t-full" "$2" "$3" "%q : $t[2,8,256,64]$p%k : $t[2,8,256,64]$p%v : $t[2,8,256,64]$p$a False)$r"
  engines "$t-causal" "$2" "$3" "%q : $t[2,8,256,64]$p%k : $t[2,8,256,64]$p%v : $t[2,8,256,64]$p$a True)$r"
  engines "$t-128" "$2" "$3" "%q : $t[1,4,512,128]$p%k : $t[1,4,512,128]$p%v : $t[1,4,512,128]$p$a True)$r"
  engines "$t-256" "$2" "$3" "%q : $t[1,4,256,256]$p%k : $t[1,4,256,256]$p%v : $t[1,4,256,256]$p$a False)$r"
  engines "$t-keys" "$2" "$3" "%q : $t[1,4,100,64]$p%k : $t[1,4,333,64]$p%v : $t[1,4,333,64]$p$a True)$r"
  engines "$t-more" "$2" "$3" "%q : $t[1,4,333,64]$p%k : $t[1,4,100,64]$p%v : $t[1,4,100,64]$p$a True)$r"
  engines "$t-odd" "$2" "$3" "%q : $t[3,5,77,72]$p%k : $t[3,5,91,72]$p%v : $t[3,5,91,40]$p$a False)$r"
  engines "$t-scale" "$2" "$3" "%q : $t[2,4,128,64]$p%k : $t[2,4,128,64]$p%v : $t[2,4,128,64]$p$a False, scale=0.3)$r"
  engines "$t-groups" "$2" "$3" "%q : $t[2,8,128,64]$p%k : $t[2,2,128,64]$p%v : $t[2,2,128,64]$p$a True, scale=None, enable_gqa=True)$r"
  # Masks: keys of padding, rows of none (some hide all keys), numbers, one for each head.
  local m="%y = scaled_dot_product_attention.default(%q, %k, %v, %m, 0.0, False)$r"
  local qkv="%q : $t[2,8,128,64]$p%k : $t[2,8,192,64]$p%v : $t[2,8,192,64]$p"
  engines "$t-mask-keys" "$2" "$3" "$qkv%m : bool[2,1,1,192]$p$m"
  engines "$t-mask-rows" "$2" "$3" "$qkv%a : bool[128,192]$p%b : $t[128,1]$p%c = gt.Scalar(%b, 0.0)\n%m = logical_and.default(%a, %c)\n$m"
  engines "$t-mask-numbers" "$2" "$3" "$qkv%m : $t[128,192]$p$m"
  engines "$t-mask-heads" "$2" "$3" "$qkv%m : $t[1,8,128,192]$p$m"
  engines "$t-mask-odd" "$2" "$3" "%q : $t[2,4,77,64]$p%k : $t[2,4,91,64]$p%v : $t[2,4,91,64]$p%m : bool[2,1,77,91]$p$m"
  # Heads beside each other, as a layer has them, and its result likewise.
  engines "$t-layer" "$2" "$3" "%x : $t[2,192,3,6,64]$p%p = permute.default(%x, [2, 0, 3, 1, 4])\n%q = select.int(%p, 0, 0)\n%k = select.int(%p, 0, 1)\n%v = select.int(%p, 0, 2)\n%o = scaled_dot_product_attention.default(%q, %k, %v, None, 0.0, True)\n%t = permute.default(%o, [0, 2, 1, 3])\n%y = reshape.default(%t, [2, 192, 384])$r"
}

without=0
if said=$(printf '%%a : f32[4] = placeholder()\n%%y = neg.default(%%a)\nreturn (%%y,)\n' >"$work/t.stax" &&
  "$build/stax" run "$work/t.stax" --target "$target" 2>&1); then
  if [ "$part" = products ]; then
    all_products
  elif [ "$part" = attention ]; then
    fast=(--fast)
    attentions f16 4e-3 4e-3
    attentions bf16 3e-2 3e-2
    [ "$without" = 0 ] || echo "$without attentions by kernels only: libcudnn.so.9 is not found or has no engine"
  else
    convolutions f32 1e-4 2e-3
    convolutions f64 1e-12 1e-10
    convolutions f16 2e-3 2e-2
    convolutions bf16 1.6e-2 6e-2
    [ "$without" = 0 ] || echo "$without convolutions by kernels only: libcudnn.so.9 is not found or has no engine"
  fi
  echo "$passed passed, $failed failed, 0 skipped"
else
  grep -oE 'no GPU to run on.*|CUDA targets need.*' <<<"$said" | head -n 1 | sed 's/^/skip: /'
  grep -qE 'no GPU to run on|CUDA targets need' <<<"$said" || printf '%s\n' "$said"
  echo "0 passed, 0 failed, 1 skipped"
fi
[ "$failed" = 0 ]
