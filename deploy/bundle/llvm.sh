#!/usr/bin/env bash
# A libLLVM.so.19.1 of the few hundred functions that our compiler and lld call: from LLVM's static archives, with
# x86 as its only target; a third of Debian's. Programs that were linked with Debian's run with this one.
# Usage: deploy/bundle/llvm.sh OUT ARCHIVE...   (the archives whose calls it serves)
set -eu
out=$1
shift
config=${LLVM_CONFIG:-llvm-config-19}
libs=$($config --libdir)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -u --format=just-symbols "$@" "$libs/liblldELF.a" "$libs/liblldCommon.a" 2>/dev/null | grep -v : | sort -u >"$work/called"
nm -D --defined-only --format=just-symbols "$libs/libLLVM.so.19.1" | sed 's/@.*//' | sort -u >"$work/offered"
comm -12 "$work/called" "$work/offered" >"$work/symbols"
sed 's/^/-Wl,-u,/' "$work/symbols" >"$work/flags"
{
  echo 'LLVM_19.1 { global:'
  sed 's/$/;/' "$work/symbols"
  echo 'local: *; };'
} >"$work/map"

# What is left out: other targets (lld initialises every one that LLVM has) and Polly (only link-time optimisation
# calls it). arc4random, which names temporary files, would need glibc 2.36.
{
  sed -nE '/X86/!s/^LLVMInitialize.*(Target|TargetInfo|TargetMC|AsmParser|AsmPrinter|Disassembler)$/void &(void); void &(void) {}/p' "$work/symbols"
  cat <<'C'
#include <stdint.h>
#include <sys/random.h>
void _Z18getPollyPluginInfov(void);
void _Z18getPollyPluginInfov(void) { __builtin_trap(); }
uint32_t arc4random(void);
uint32_t arc4random(void)
{
	uint32_t v;
	while (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v)
		;
	return v;
}
C
} >"$work/rest.c"
gcc -O2 -fPIC -c "$work/rest.c" -o "$work/rest.o"

mkdir -p "$(dirname "$out")"
# shellcheck disable=SC2046
g++ -shared -o "$out" -Wl,-soname,libLLVM.so.19.1 -Wl,--gc-sections "-Wl,--version-script=$work/map" \
  -Wl,-O2 -Wl,-s -Wl,-z,relro,-z,now,-z,defs "@$work/flags" "$work/rest.o" "-L$libs" -Wl,--start-group \
  $($config --link-static --libs x86codegen x86asmparser x86desc x86info passes bitreader bitwriter lto option core |
    sed 's/-lPolly[A-Z]*//g') -Wl,--end-group -lz -lzstd -ldl -lm -lpthread
