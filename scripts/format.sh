#!/usr/bin/env bash
# Formats the C++ and CUDA sources with clang-format 19.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  "" | --check) ;;
  *)
    echo "usage: scripts/format.sh [--check]"
    echo "Formats all C++ and CUDA sources that git does not ignore; --check only reports, and fails if one differs."
    [[ $1 == -h || $1 == --help ]] && exit 0 || exit 2
    ;;
esac

tool=$(command -v clang-format-19 || command -v clang-format || true)
if [[ -z $tool || $("$tool" --version) != *"version 19."* ]]; then
  echo "clang-format 19 is not installed: run scripts/setup.sh --dev"
  exit 77  # ctest: skipped.
fi

patterns=('*.h' '*.cpp' '*.cu' '*.cuh')
if [[ -e .git ]]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- "${patterns[@]}" | sort -u)
else
  mapfile -t files < <(find . \( -path ./build -o -path ./dist \) -prune -o -type f \
    \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print | sort)
fi
existing=()  # git also lists files that are deleted but not staged.
for file in "${files[@]}"; do
  [[ -f $file ]] && existing+=("$file")
done
((${#existing[@]})) || exit 0

if [[ ${1:-} == --check ]]; then
  "$tool" --dry-run -Werror "${existing[@]}"
else
  "$tool" -i "${existing[@]}"
fi
