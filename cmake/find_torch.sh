#!/bin/sh
# Prints the site-packages folder with torch 2.11.0 for CUDA 13 and its CUDA wheels, or fails with
# one line that says what to do. Order: STEPLENS_TORCH, the active python3, the venv of setup.sh.
# Called by cmake/LibTorch.cmake and by the scripts, so that all of them agree.
set -u

# What is wrong with a site-packages folder; empty if nothing.
fault() {
  for file in torch/lib/libtorch_cuda.so torch/include/ATen/ATen.h nvidia/cu13/lib/libcudart.so.13 \
      nvidia/cu13/lib/libcupti.so.13 nvidia/cu13/include/cuda_runtime_api.h \
      nvidia/nccl/lib/libnccl.so.2; do
    [ -e "$1/$file" ] || { echo "it has no $file"; return; }
  done
  grep -q "^__version__ = '2\.11\.0" "$1/torch/version.py" || { echo "torch is not 2.11.0"; return; }
  grep -q "^cuda.* = '13\." "$1/torch/version.py" || echo "torch is not built for CUDA 13"
}

given=${STEPLENS_TORCH_CACHE_VARIABLE:-${STEPLENS_TORCH:-}}
if [ -n "$given" ]; then
  site=${given%/}
  [ -e "$site/lib/libtorch_cpu.so" ] && site=$(dirname "$site")
  why=$(fault "$site")
  [ -z "$why" ] || {
    echo "STEPLENS_TORCH=$given is not a site-packages folder with torch 2.11.0 for CUDA 13: $why" >&2
    exit 1
  }
  echo "$site"
  exit
fi

# find_spec: importing torch takes seconds.
active=$(python3 -c 'import importlib.util as u, os
s = u.find_spec("torch")
print(os.path.dirname(os.path.dirname(s.origin)) if s and s.origin else "")' 2>/dev/null)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/steplens/torch-2.11.0
for site in "$active" "$venv"/lib/python3.*/site-packages; do
  [ -n "$site" ] && [ -z "$(fault "$site")" ] && { echo "$site"; exit; }
done
echo "LibTorch 2.11.0 for CUDA 13 was not found: run scripts/setup.sh (or set STEPLENS_TORCH to a" \
  "site-packages folder that has it)." >&2
exit 1
