#!/usr/bin/env bash
# A folder with the programs that can be moved to another machine, and the same as an archive.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") ;;
  *)
    echo "usage: scripts/dist.sh"
    echo "Builds dist/ (stripped programs, Python arms, README) and steplens-VERSION-ARCH.tar.zst."
    [[ $1 == -h || $1 == --help ]] && exit 0 || exit 2
    ;;
esac

cmake --preset release --log-level=WARNING >/dev/null
cmake --build --preset release --target steplens steplens-worker steplens-viewer
rm -rf dist
cmake --install build/release --prefix dist --strip >/dev/null
mkdir -p dist/lib
cat >dist/HOW_TO_RUN.txt <<'TXT'
bin/steplens runs as it is, and so does bin/steplens-viewer where libglfw3, libepoxy0 and libegl1 are
installed. bin/steplens-worker needs torch 2.11.0 for CUDA 13, from a Python's
site-packages folder. In this folder:

  ln -sfn "$(scripts/find_torch.sh)" libtorch     finds one: $STEPLENS_TORCH, the active python3
  ln -sfn /path/to/site-packages libtorch         or name it

  bin/steplens doctor                             says whether all is there
TXT

version=$(sed -n 's/^project(steplens VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
archive=steplens-$version-linux-$(uname -m).tar.zst
tar --create --file "$archive" --use-compress-program 'zstd -19 -q' --owner 0 --group 0 \
  --transform "s,^dist,steplens-$version," dist
du -sh --apparent-size dist "$archive"
