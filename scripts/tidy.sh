#!/usr/bin/env bash
# clang-tidy 19 over all sources of the `cpu` build (those without LibTorch and CUDA).
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help)
    cat <<'TXT'
usage: scripts/tidy.sh [FILE...]

Checks the files named, or all sources of the product that build without LibTorch and CUDA. A file
whose sources, headers, flags and rules did not change since it was last found clean is not checked
again; that memory is in ${XDG_CACHE_HOME:-~/.cache}/steplens/tidy.

Environment: STEPLENS_JOBS, checks at once (default: all cores).
TXT
    exit
    ;;
esac

# The build tells which headers each file includes, and makes the generated ones.
cmake --preset cpu --log-level=WARNING >/dev/null
cmake --build --preset cpu -j "${STEPLENS_JOBS:-$(nproc)}"
exec python3 scripts/tidy.py build/cpu "$@"
