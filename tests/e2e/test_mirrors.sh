#!/usr/bin/env bash
# Structures of stax.h and stax_abi.h that tests/bench/bench_gpu.py repeats for ctypes: the same fields in the same order.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/lib.sh

# The names of a structure's fields: of C, without comments and parameters, what stands before each ',' and ';'.
c_fields() {
  awk -v s="struct $1 {" 'index($0, s) == 1 { on = 1; next } on && /^}/ { exit } on' client/stax.h proto/base/stax_abi.h |
    tr '\n\t' '  ' |
    sed -E 's|/\*([^*]\|\*[^/])*\*/||g; s/\(\*(\w+)\)/\1/g; :a; s/\([^()]*\)//; ta; s/\[[^]]*\]//g; s/[,;]/ \n/g' |
    sed -nE 's/.*\b(\w+) *$/\1/p'
}
py_fields() {
  awk -v s="class $1(" 'index($0, s) == 1 { on = 1; next } on && /^$/ { exit } on' tests/bench/bench_gpu.py |
    grep -oE '\("\w+"' | tr -d '("'
}
for pair in stax_error:Error stx_env:Env stx_tensor:Tensor stax_request:Request stax_tuning:Tuning stax_tuned:Tuned; do
  ok "${pair#*:} of bench_gpu.py has the fields of ${pair%:*}" \
    diff <(c_fields "${pair%:*}") <(py_fields "${pair#*:}")
done
ok "both lists were read" [ "$(c_fields stax_request | wc -l)" -gt 10 ]
finish
