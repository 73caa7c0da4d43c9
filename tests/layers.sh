#!/usr/bin/env bash
# Include directions of the tree (README.md of each folder; the compiler enforces the same by include paths):
# every #include "x.h" must name a header of the folder itself or of a folder it may see.
set -u
cd "$(dirname "$0")/.."
declare -A may=(
  [proto/base]="proto/base"
  [proto]="proto proto/base gen/env"
  [kernels/1_graph]="kernels/1_graph proto/base"
  [kernels/1_graph/import]="kernels/1_graph/import kernels/1_graph proto/base gen/wire"
  [kernels/2_autodiff]="kernels/2_autodiff kernels/1_graph proto/base"
  [kernels/3_lower]="kernels/3_lower kernels/2_autodiff kernels/1_graph proto/base"
  [kernels/4_schedule]="kernels/4_schedule kernels/3_lower kernels/2_autodiff kernels/1_graph proto/base"
  [kernels/5_codegen]="kernels/5_codegen kernels/5_codegen/templates kernels/4_schedule kernels/3_lower kernels/2_autodiff kernels/1_graph proto/base"
  [kernels/5_codegen/templates]="kernels/5_codegen kernels/5_codegen/templates kernels/4_schedule kernels/3_lower kernels/1_graph proto/base"
  [kernels/6_tune]="kernels/6_tune kernels/4_schedule kernels/3_lower kernels/1_graph proto/base"
  [kernels/ref]="kernels/ref kernels/1_graph proto/base"
  [kernels]="kernels kernels/1_graph kernels/1_graph/import kernels/2_autodiff kernels/3_lower kernels/4_schedule kernels/5_codegen kernels/6_tune kernels/ref proto/base"
  [cache]="cache proto/base"
  [server]="server cache kernels proto proto/base gen/env"
  [client]="client proto proto/base gen/env"
  [client/tool]="client/tool client proto proto/base gen/env"
)
bad=0 seen=0
for dir in "${!may[@]}"; do
  for f in "$dir"/*.c "$dir"/*.h "$dir"/*.cc; do
    [ -e "$f" ] || continue
    while IFS= read -r inc; do
      seen=$((seen + 1))
      case $inc in
        */*) echo "$f: #include \"$inc\": name headers without a path"; bad=$((bad + 1)); continue ;;
      esac
      ok=0
      for d in ${may[$dir]}; do
        case $d in
          gen/env) [ "$inc" = stax.pb-c.h ] && ok=1 ;;
          gen/wire) case $inc in graph.pb-c.h | onnx.pb-c.h) ok=1 ;; esac ;;
          *) [ -e "$d/$inc" ] && ok=1 ;;
        esac
      done
      # NAME_impl.h and NAME_internal.h are for the files beside them (and tests, which are not looked at)
      case $inc in *_impl.h | *_internal.h) [ -e "$dir/$inc" ] || ok=0 ;; esac
      # the daemon sees one header of the compiler
      [ "$dir" = server ] && [ ! -e "server/$inc" ] && [ -e "kernels/$inc" ] && [ "$inc" != compile.h ] && ok=0
      [ $ok = 1 ] || { echo "$f: #include \"$inc\" is outside what $dir may see"; bad=$((bad + 1)); }
    done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]+"([^"]+)".*/\1/p' "$f")
    case $f in
      kernels/1_graph/import/* | proto/*.c | proto/*.h | server/* | client/*) ;;
      *) grep -lE '#include <(protobuf-c|google)' "$f" && { echo "$f: protobuf outside import/"; bad=$((bad + 1)); } ;;
    esac
    case $f in
      kernels/*) grep -qE '#include <(sqlite3|uv)\.h>' "$f" && { echo "$f: SQLite or libuv in kernels/"; bad=$((bad + 1)); } ;;
      client/*) grep -qE '#include <llvm' "$f" && { echo "$f: LLVM in client/"; bad=$((bad + 1)); } ;;
    esac
  done
done
extra=$(git ls-files 2>/dev/null | cut -d/ -f1 | sort -u |
  grep -vE '^(Makefile|README\.md|server|client|proto|cache|kernels|tests|deploy|\..*)$' || true)
[ -z "$extra" ] || { echo "outside the fixed top level: $extra"; bad=$((bad + 1)); }
echo "layers: $seen includes checked, $bad wrong"
[ $bad = 0 ]
