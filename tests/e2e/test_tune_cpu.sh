#!/usr/bin/env bash
# stax tune of a CPU target, end to end: products are measured once, known to later processes and daemons, and compiled
# as measured from then on; results stay the same to the bit.
set -u
. "$(dirname "$0")/lib.sh"
unset STAX_JOB
export STAX_THREADS=1
stax=$build/stax

cat >"$work/product.stax" <<'END'
%x : f32[200,300] = placeholder()
%w : f32[300,400] = placeholder()
%y = mm.default(%x, %w)
return (%y,)
END
# The same product among other work, and one that nobody has measured.
cat >"$work/layers.stax" <<'END'
%x : f32[200,300] = placeholder()
%w : f32[300,400] = placeholder()
%v : f32[400,96] = placeholder()
%y = mm.default(%x, %w)
%a = relu.default(%y)
%z = mm.default(%a, %v)
return (%z,)
END
cat >"$work/line.stax" <<'END'
%x : f32[1000] = placeholder()
%a = tanh.default(%x)
return (%a,)
END

compile() { "$stax" compile "$@" --json >"$work/json" 2>"$work/err"; }
results() { "$stax" run "$work/$1.stax" --out "$work/$2" >/dev/null 2>&1; }

start_daemon || exit 1
compile "$work/product.stax"
first=$(field config) key=$(field key)
ok "the model chooses, and says so" [ "$(field chosen_by)" = heuristic ]
ok "blockings are candidates" [ "$(field candidates)" -ge 2 ]
ok "a blocking is the configuration" grep -qxE '[0-9]+x[0-9]+x[0-9]+' <<<"$first"
results product before
tells "tune measures" ': 1 measured, 0 known' "$stax" tune "$work/product.stax" --target cpu
cp "$work/out" "$work/tuned"
ok "no candidate's results differ" bash -c "! grep -q rejected "$work/tuned""
ok "at most eight" [ "$(grep -c "us, spread" "$work/tuned")" -le 8 ]
ok "the model's choice among them" grep -q "thread, $first: " "$work/tuned"
tells "tune knows" ': 0 measured, 1 known' "$stax" tune "$work/product.stax" --target cpu
stop_daemon
start_daemon || exit 1
tells "also after a restart" ': 0 measured, 1 known' "$stax" tune "$work/product.stax" --target cpu
"$stax" tune "$work/product.stax" --target cpu --json >"$work/json" 2>/dev/null
chosen=$(field chosen) chosen_us=$(field chosen_us)
compile "$work/product.stax"
ok "a compile has the choice" [ "$(field config)" = "$chosen" ]
ok "and says who chose" [ "$(field chosen_by)" = measured ]
ok "and its time" [ "$(field median_us)" = "$chosen_us" ]
ok "under a key of its own, when it is another" [ "$([ "$chosen" = "$first" ] && echo "$key")" = "$([ "$(field key)" = "$key" ] && echo "$key")" ]
compile "$work/product.stax"
ok "then a hit" [ "$(field hit)" = true ]
results product after
ok "the same results to the bit" diff -r "$work/before" "$work/after"

# Another graph's equal product has the choice too, the other one the model's.
compile "$work/layers.stax"
ok "an equal product elsewhere" [ "$(field config)" = "$chosen" ]
ok "was measured" [ "$(field chosen_by)" = measured ]
ok "another product was not" [ "$(field chosen_by 2)" = heuristic ]
tells "only that is measured" ': 1 measured, 1 known' "$stax" tune "$work/layers.stax" --target cpu
tells "with another number of threads" ': 1 measured, 1 known' env STAX_THREADS=2 "$stax" tune "$work/product.stax" --target cpu
tells "fast is other code" ': 1 measured, 0 known' "$stax" tune "$work/product.stax" --target cpu --fast
tells "a sweep compares" 'chosen/best' "$stax" tune "$work/product.stax" --target cpu --sweep 10 --runs 5

# A job's ranks go by what its first one saw.
sed 's/200/220/' "$work/product.stax" >"$work/other.stax"
STAX_JOB=j1 compile "$work/other.stax"
key=$(field key)
tells "measured beside the job" ': 1 measured, 0 known' "$stax" tune "$work/other.stax" --target cpu
STAX_JOB=j1 compile "$work/other.stax"
ok "the job's choice stays" [ "$(field chosen_by) $(field key)" = "heuristic $key" ]
STAX_JOB=j2 compile "$work/other.stax"
ok "a later job has the measured one" [ "$(field chosen_by)" = measured ]

tells "no server" ': 1 measured, 0 known' env STAX_SERVER=none STAX_STAXD="$build/staxd" \
  "$stax" tune "$work/product.stax" --target cpu --sweep 3
tells "nothing to measure" '^0 kernels with several' "$stax" tune "$work/line.stax" --target cpu
exits 2 "another host's caches" "$stax" tune "$work/product.stax" --target cpu:x86-64-v2:64K-8M-64M
ok "compile --out" "$stax" compile "$work/product.stax" --out "$work/so"
exits 2 "an artifact alone" "$stax" tune "$work/so/product.so" --target cpu
finish
