#!/usr/bin/env bash
# Every line of kernels/NUMERICS.md (an item of a list, a row of a table of rules) names a test that holds it, by the
# end of its name, and what is named after P, E, R, I or C exists. What passes of class TOL change is written there,
# too (SE-13). Usage: tests/numerics.sh (part of `make check`).
set -u
cd "$(dirname "$0")/.."
page=kernels/NUMERICS.md
names=$(find tests -name 'test_*.c' -exec cat {} + | tr -s ' \t\n' ' ' | grep -oE 'cmocka_unit_test\( ?test_[a-z0-9_]+' |
  grep -oE 'test_[a-z0-9_]+$' | sort -u)
awk -v names="$names" '
  BEGIN { n = split(names, name, "\n"); passed = failed = 0 }
  function is_test(token, i, at) {
    for (i = 1; i <= n; i++) {
      at = length(name[i]) - length(token)
      if (at > 0 && substr(name[i], at) == "_" token) return 1
    }
    return 0
  }
  function judge(rest, found, listed, before, token) {
    if (item == "") return
    rest = item
    while (match(rest, /`[^`]*`/)) {
      token = substr(rest, RSTART + 1, RLENGTH - 2)
      before = substr(rest, 1, RSTART - 1)
      listed = before ~ /(^|[^A-Za-z])[PERIC] +$/ || (listed && before ~ /^, +$/)
      rest = substr(rest, RSTART + RLENGTH)
      if (token !~ /^[a-z0-9_]+$/) continue
      if (is_test(token)) found = 1
      else if (listed) { print page ":" line ": no test ends with " token; found = -1; break }
    }
    if (found == 1) passed++
    else { failed++; if (!found) print page ":" line ": no test is named: " substr(item, 1, 90) }
    item = ""
  }
  /^\|---/ { in_rules = header !~ /^\| function/; next }
  /^\|/ { judge(); header = $0; if (in_rules) { item = $0; line = FNR; judge() }; next }
  /^\* / { judge(); in_rules = 0; item = $0; line = FNR; next }
  /^  / { if (item != "") item = item " " $0; next }
  { judge(); in_rules = 0 }
  END { judge(); print passed " lines held, " failed " not"; exit failed > 0 }
' page="$page" "$page"
lines=$?
tol=0
for pass in $(sed -nE 's/^STX_PASS\([A-Z]+, *([a-z_]+), *TOL.*/\1/p' kernels/pass.def); do
  grep -q "class TOL, \`$pass\`" "$page" || { echo "$page: pass $pass of class TOL has no analysis there"; tol=1; }
done
echo "$((2 - lines - tol)) passed, $((lines + tol)) failed, 0 skipped"
[ $((lines + tol)) = 0 ]
