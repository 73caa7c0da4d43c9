#!/usr/bin/env bash
# `make gpu-bundle`: packs what was built under DIR/build and DIR/lib with every shared library it needs but those of
# glibc and the C++ compiler, the test scripts and the ONNX tests into DIR/stax-gpu.tar.xz. Tells its size and the
# least glibc; fails when that is newer than Ubuntu 22.04's, or the file larger than 40 MB.
# Usage: deploy/bundle/pack.sh DIR     ($ONNX_CORPUS: the ONNX backend tests as tar.gz; without it they are left out)
set -eu
cd "$(dirname "$0")/../.."
dir=$1
most_bytes=40000000 most_glibc=2.35 most_glibcxx=3.4.30
top=$dir/stax-gpu

rm -rf "$top" "$top.tar.xz"
mkdir -p "$top/lib" "$top/tests/bench" "$top/tests/e2e"
while read -r t; do
  install -D "$dir/build/tests/$t" "$top/build/tests/$t"
done < <(cut -d" " -f1 tests/gpu/programs; printf '%s\n' property/test_graphs bench/bench_cuda unit/5_codegen/test_functions)
cp -P "$dir/build/staxd" "$dir/build/stax" "$dir/build/libstax.so" "$dir/build/libstax.so.0" "$top/build/"
cp "$dir"/lib/* "$top/lib/"

# Found as the dynamic linker finds them: by the programs' own rpath first. What a machine always has stays out.
elves() { find "$top/build" "$top/lib" -type f; }
system='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so'
(unset LD_LIBRARY_PATH; elves | xargs -n1 ldd) | awk '/not found/ {print "missing: " $1 >"/dev/stderr"; exit 1} $2 == "=>" {print $1, $3}' | sort -u |
  while read -r name path; do
    if ! [[ $name =~ $system ]] && ! [ -e "$top/lib/$name" ] && ! [ -e "$top/build/$name" ]; then
      cp -L "$path" "$top/lib/$name"
    fi
  done

cp -r tests/gpu "$top/tests/"
cp tests/run.sh tests/overnight.sh tests/functions.sh "$top/tests/"
cp tests/e2e/lib.sh "$top/tests/e2e/"
cp -r tests/bench/bench_gpu.* tests/bench/bench_{cpu,models,small}.* tests/bench/tune.sh tests/bench/gpu "$top/tests/bench/"
cp deploy/bundle/README "$top/"
ln -s tests/gpu/check.sh "$top/check-gpu"
ln -s tests/bench/bench_gpu.sh "$top/bench-gpu"
ln -s tests/bench/bench_cpu.sh "$top/bench-cpu"
git describe --always --dirty >"$top/REVISION" 2>/dev/null || echo unknown >"$top/REVISION"
if [ -e "${ONNX_CORPUS:-}" ]; then
  mkdir "$top/corpus"
  tar xzf "$ONNX_CORPUS" -C "$top/corpus"
else
  echo "without the ONNX tests (ONNX_CORPUS is not set)"
fi

newest() { # PREFIX: the newest version of it that any file asks for
  elves | xargs -n1 objdump -T 2>/dev/null | grep -oE "\(${1}_[0-9.]+\)" | tr -d '()' | sed "s/^$1_//" | sort -uV | tail -n 1
}
glibc=$(newest GLIBC) glibcxx=$(newest GLIBCXX)
no_newer() { [ "$(printf '%s\n' "$@" | sort -V | tail -n 1)" = "$2" ]; }
if ! no_newer "$glibc" "$most_glibc" || ! no_newer "$glibcxx" "$most_glibcxx"; then
  echo "needs glibc $glibc and GLIBCXX_$glibcxx: newer than Ubuntu 22.04's ($most_glibc, $most_glibcxx)" >&2
  exit 1
fi

tar -C "$dir" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - stax-gpu | xz -T2 -7 >"$top.tar.xz"
bytes=$(stat -c %s "$top.tar.xz")
echo "$top.tar.xz: $bytes bytes ($(du -sm "$top" | cut -f1) MB unpacked); needs glibc $glibc, GLIBCXX_$glibcxx, x86-64"
[ "$bytes" -le $most_bytes ] || { echo "larger than $most_bytes bytes" >&2; exit 1; }
