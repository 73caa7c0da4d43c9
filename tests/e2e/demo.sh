#!/usr/bin/env bash
# `make demo`: a private staxd, a real ONNX model, compile (miss), run, compare with the oracle, compile (hit).
set -u
cd "$(dirname "$0")/../.."
. tests/e2e/lib.sh
say() { printf '\n== %s\n' "$*"; }

say "a private staxd"
start_daemon || exit 1
"$build/stax" ping
say "an ONNX model, written with protobuf-c"
"$build/tests/e2e/demo_model" "$work/model.onnx" "$work/x.npy" || exit 1
say "first compile: a miss"
"$build/stax" compile "$work/model.onnx" --out "$work/artifact" || exit 1
say "run on data"
"$build/stax" run "$work/model.onnx" --input x="$work/x.npy" --time 5 --out "$work/got" || exit 1
say "compare with the oracle"
"$build/stax" compare "$work/model.onnx" --input x="$work/x.npy" || exit 1
say "second compile: a hit"
"$build/stax" compile "$work/model.onnx" >"$work/hit.txt" || exit 1
grep -v '^note ' "$work/hit.txt" | head -4 # the table and the report are those of the miss
grep -E '^(compiled|this request)' "$work/hit.txt"
"$build/stax" compile "$work/model.onnx" --json >"$work/hit.json" || exit 1
python3 - "$work/hit.json" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
if not r["hit"]:
    sys.exit("the second compile was not a hit: " + r["reason"])
print("hit:", r["hit"], "key:", r["key"][:16], "kernels:", len(r["kernels"]), "reason:", r["reason"])
PY
[ $? = 0 ] || exit 1
say "statistics (a few of stax stats)"
"$build/stax" stats | grep -E '^(requests|hits|misses|compiles|kernels_compiled|kernels_reused|failures|store_bytes) '
say "demo finished"
