# env.sh: shared by check.sh and bench_gpu.sh, in the tree and in a bundle: where NVRTC and cuDNN are, whether there is a
# GPU.
# Sourced with the tree's top as the current folder.
build=${STAX_BUILD:-$PWD/build}
export STAX_CUDA=1

# CUDA_HOME: as given, the toolkit's usual places, the nvidia packages that python3 has. Unset: the library path.
# CUDNN_HOME: as given, the package that python3 has. Unset: where libstax looks (README).
has_nvrtc() { compgen -G "$1/lib64/libnvrtc.so.1[23]" >/dev/null || compgen -G "$1/lib/libnvrtc.so.1[23]" >/dev/null; }
find_nvrtc() {
  local at pip
  pip=$(python3 -c 'import nvidia; print(*list(nvidia.__path__), sep="\n")' 2>/dev/null)
  for at in $pip; do
    [ -z "${CUDNN_HOME:-}" ] && [ -e "$at/cudnn/lib/libcudnn.so.9" ] && export CUDNN_HOME=$at/cudnn
  done
  for at in "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-1* /opt/cuda \
    $(for p in $pip; do echo "$p/cu13" "$p/cu12" "$p/cuda_nvrtc"; done); do
    if [ -n "$at" ] && has_nvrtc "$at"; then
      export CUDA_HOME=$at
      return
    fi
  done
}

# The target of this machine's GPU in $target, and 0; 1 and why there is none in $no_gpu. A GPU that is there and does
# not serve is no such reason.
find_gpu() {
  local said
  said=$(STAX_SERVER=none "$build/stax" compile tests/gpu/graphs/empty.stax --target cuda 2>&1)
  no_gpu=$(grep -oE 'no GPU to run on.*' <<<"$said")
  target=$(sed -nE 's/^target +(cuda:[^ ]+).*/\1/p' <<<"$said")
  if [ -z "$target$no_gpu" ]; then
    printf '%s\n' "$said" >&2
    exit 1
  fi
  [ -n "$target" ]
}

describe_machine() {
  echo "$(date -u +%Y-%m-%d), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)," \
    "$target, $(nproc) cores, CUDA_HOME=${CUDA_HOME:-}"
}
