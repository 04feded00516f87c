#!/usr/bin/env bash
# Makes a bare Debian 12 able to build Steplens: system packages, then LibTorch and CUDA as wheels.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TXT'
usage: scripts/setup.sh [--dev]

Installs what the build needs, and nothing that is there already; safe to run again.
  1. System packages (apt-get; as root, or through sudo).
  2. LibTorch 2.11.0 with CUDA 13, as wheels (2.6 GB to download, 4.2 GB on disk) in
     ${XDG_CACHE_HOME:-~/.cache}/steplens/torch-2.11.0. Left out where STEPLENS_TORCH names a
     site-packages folder that has them, or where the active python3 has torch 2.11.0 for CUDA 13.

  --dev   Also clang-format and clang-tidy, for scripts/format.sh, tidy.sh and test.sh; Xvfb, xdotool,
          xclip and python3-xlib, with which the tests use the viewer; Chromium, which renders
          report.html for them, and Google Benchmark's compare.py.
TXT
}

is_dev=0
for argument in "$@"; do
  case $argument in
    --dev) is_dev=1 ;;
    -h | --help) usage; exit ;;
    *) echo "setup.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

packages=(build-essential ninja-build cmake ccache git python3 python3-dev python3-venv zstd
  nlohmann-json3-dev libcli11-dev libfmt-dev libssl-dev libzstd-dev libsqlite3-dev zlib1g-dev libopenmpi-dev openmpi-bin libgtest-dev libgmock-dev libbenchmark-dev
  libimgui-dev libstb-dev libglfw3-dev libepoxy-dev libegl-dev libegl-mesa0 libgl1-mesa-dri
  fonts-roboto-unhinted fonts-inter fonts-jetbrains-mono)
((is_dev)) && packages+=(clang-format-19 clang-tidy-19 xvfb xdotool xclip python3-xlib chromium libbenchmark-tools)

# Exact versions: those that torch 2.11.0 asks for, nvcc and its parts at the same CUDA release. pip
# resolves nothing (--no-deps), which leaves out triton: only torch.compile and compile=aoti on a GPU
# need it (pip install triton==3.6.0).
wheels=(torch==2.11.0 typing-extensions==4.15.0 numpy==2.4.6 tokenizers==0.23.3 sympy==1.14.0 mpmath==1.3.0
  networkx==3.6.1 jinja2==3.1.6 markupsafe==3.0.4 filelock==4.3.1 fsspec==2026.9.0
  nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-cccl==13.0.85
  nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85 nvidia-cuda-nvrtc==13.0.88 nvidia-nvtx==13.0.85
  nvidia-nvjitlink==13.0.88 nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56 nvidia-cudnn-frontend==1.16.0 nvidia-cufft==12.0.0.61
  nvidia-cufile==1.15.1.6 nvidia-curand==10.4.0.35 nvidia-cusolver==12.0.4.66 nvidia-cusparse==12.6.3.3
  nvidia-cusparselt-cu13==0.8.0 nvidia-nccl-cu13==2.28.9 nvidia-nvshmem-cu13==3.4.5)

cache=${XDG_CACHE_HOME:-$HOME/.cache}/steplens
venv=$cache/torch-2.11.0

install_packages() {
  if ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here; make sure that the like of these is installed: ${packages[*]}"
    return
  fi
  local missing=() package
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo true; }; }; then
      echo "setup: these packages are missing, and installing them needs root. Run as root, then call this again:" >&2
      echo "  apt-get install -y --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "setup: installing ${#missing[@]} system packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

install_wheels() {
  if [[ -n ${STEPLENS_TORCH:-} ]]; then
    cmake/find_torch.sh >/dev/null  # Says what is wrong with it.
    return
  fi
  local site
  site=$(cmake/find_torch.sh 2>/dev/null) || site=""
  if [[ -n $site && $site != "$venv"/* ]]; then
    return
  fi
  if [[ $(cat "$venv/installed" 2>/dev/null) == "${wheels[*]}" ]]; then
    return
  fi
  echo "setup: installing ${#wheels[@]} wheels (2.6 GB, unless there already) into $venv"
  [[ -x $venv/bin/pip ]] || "$(command -v /usr/bin/python3 || command -v python3)" -m venv --clear "$venv"
  rm -f "$venv/installed"
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --no-compile --no-deps "${wheels[@]}"

  # nvcc looks for lib64/, and the linker for names without a version: the wheels have neither.
  local nvidia=("$venv"/lib/python3.*/site-packages/nvidia) library
  ln -sfn lib "${nvidia[0]}/cu13/lib64"
  for library in "${nvidia[0]}"/cu13/lib/lib*.so.* "${nvidia[0]}"/nccl/lib/libnccl.so.*; do
    ln -sf "${library##*/}" "${library%.so.*}.so"
  done
  printf '%s\n' "${wheels[*]}" >"$venv/installed"
}

mkdir -p "$cache"
exec 9>"$cache/setup.lock"
flock -n 9 || { echo "setup: another setup.sh is running; waiting for it"; flock 9; }
install_packages
install_wheels
echo "setup: ready, LibTorch in $(cmake/find_torch.sh)"
