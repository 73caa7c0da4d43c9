#!/usr/bin/env bash
# Which ids of the conformance list the tests cite, by section, and why the others are not.
# Usage: tests/coverage.sh (part of `make check`). SPEC names the list (../shared/spec/conformance.md); without it
# one skip. Reasons are in tests/conformance/uncovered.txt, a line an id: `ID reason`. An id of these sections that
# no test cites and that has no reason is a failure, and so is a reason for an id that a test cites.
set -u
cd "$(dirname "$0")/.."
spec=${SPEC:-../shared/spec/conformance.md}
table=tests/conformance/uncovered.txt
sections="OG DF LO IR LV RD RZ LN VR SE ST OP BE GF CA LC"
if [ ! -e "$spec" ]; then
  echo "skip: no conformance list (set SPEC=FILE)"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
# Ranges are not citations: a test names each id that it asserts. Benches and fuzzers assert none.
cited=$(grep -rhoE '\b[A-Z]{2}-[0-9]{2}\b' tests --include='*.c' --include='*.h' --include='*.sh' \
  --exclude-dir=bench --exclude-dir=fuzz | sort -u)
passed=0 failed=0
for s in $sections; do
  ids=$(grep -oE "^- \*\*$s-[0-9]{2}\*\*" "$spec" | tr -d '*' | cut -d' ' -f2 | sort -u)
  all=0 have=0 missing="" stale="" why=""
  for id in $ids; do
    all=$((all + 1))
    reason=$(sed -n "s/^$id //p" "$table" | head -1)
    if grep -qx "$id" <<<"$cited"; then
      have=$((have + 1))
      [ -z "$reason" ] || stale+=" $id"
    elif [ -n "$reason" ]; then
      why+="  $id $reason"$'\n'
    else
      missing+=" $id"
    fi
  done
  printf '%s %d of %d cited\n%s' "$s" "$have" "$all" "$why"
  if [ -n "$missing" ] || [ "$all" = 0 ]; then
    echo "  neither cited by a test nor explained in $table:${missing:- the whole section}"
    failed=$((failed + 1))
  elif [ -n "$stale" ]; then
    echo "  cited by a test, yet explained in $table:$stale"
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
