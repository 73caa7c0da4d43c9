#!/usr/bin/env bash
# `make bench-gpu`, and ./bench-gpu of a bundle: the GPU table, one run, one process (bench_gpu.py says how it measures;
# --help). Without a GPU it says so and succeeds. Without a python3 that has PyTorch: our own times only.
# Usage: bench_gpu.sh [--json FILE] [CASE...]
#        bench_gpu.sh --tune [N]      launch configurations and cuBLASLt's algorithms instead: tune.sh
set -u
there=$PWD
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
. tests/gpu/env.sh
. tests/e2e/lib.sh
python=${PYTHON:-python3}
find_nvrtc
case " $* " in
*' --help '* | *' -h '* | *' --list '* | *' --device cpu '*) ;; # need no GPU
*)
  if ! find_gpu; then
    echo "skip: $no_gpu"
    exit 0
  fi
  ;;
esac
if [ "${1:-}" = --tune ]; then
  shift
  describe_machine
  tests/bench/tune.sh "$@"
  exit
fi
# A service at work: workers that have loaded NVRTC.
start_daemon --workers "$(nproc)" || exit 1
# What the service adds to NVRTC and to a hit: the cases, and a network of twelve layers that share kernels.
if [ $# = 0 ]; then
  network=$work/gpt2_12_blocks.stax
  "$python" tests/bench/bench_models.py "12 gpt-2 blocks" >"$network" 2>/dev/null || network=
  STAX_STAXD=$build/staxd "$build/tests/bench/bench_cuda" --target "$target" tests/bench/gpu/*.stax ${network:+"$network"} || exit 1
fi
if "$python" -c 'import torch' 2>/dev/null; then
  (cd "$there" && PYTHONUNBUFFERED=1 STAX_BUILD=$build "$python" "$OLDPWD/tests/bench/bench_gpu.py" "$@")
  exit
fi

json=
if [ "${1:-}" = --json ]; then json=$2 && shift 2; fi
describe_machine
echo "no $python with PyTorch here: our own times only, of the host, waited for, with a warm L2; not the table"
printf '%-24s %12s %12s %12s\n' case 'median us' 'least us' 'cold ms'
rows=
for f in tests/bench/gpu/*.stax; do
  name=$(basename "$f" .stax)
  [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
  cold=$("$build/stax" compile "$f" --target "$target" --json 2>/dev/null |
    grep -oE '"stages_us":\{[^}]*' | grep -oE '[0-9]+' | awk '{s += $1} END {print s / 1000}')
  said=$("$build/stax" run "$f" --target "$target" --time 50 2>&1)
  read -r median least < <(sed -nE 's/.*median ([0-9.]+) us, least ([0-9.]+) us.*/\1 \2/p' <<<"$said")
  if [ -z "${median:-}" ]; then
    echo "$name: $(tail -n 1 <<<"$said")"
    continue
  fi
  printf '%-24s %12s %12s %12s\n' "$name" "$median" "$least" "$cold"
  rows="$rows${rows:+,}{\"case\":\"$name\",\"median_us\":$median,\"least_us\":$least,\"cold_ms\":$cold}"
  median=
done
[ -z "$json" ] || (cd "$there" && echo "{\"machine\":\"$(describe_machine)\",\"rows\":[$rows]}" >"$json")
