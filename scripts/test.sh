#!/usr/bin/env bash
# Everything that must hold before a change goes in. CI runs this.
set -euo pipefail
cd "$(dirname "$0")/.."

# The release tests come last, so that their summary ends the output.
stages=(setup format architecture release headers cpu asan tsan tidy tests)
# What runs when no stage is named. The others compile the tree four more times: half an hour each
# under a sanitizer on two cores.
usual=(setup format architecture release headers tests)

usage() {
  cat <<'TXT'
usage: scripts/test.sh [STAGE...]

Runs setup, format, architecture, release, headers and tests, or the stages named (`all`: every
one), in this order:
  setup         system packages and LibTorch (scripts/setup.sh --dev)
  format        clang-format has nothing to change
  architecture  no folder includes what it must not know
  release       builds everything with LibTorch and CUDA
  headers       each public header compiles alone
  cpu           builds without LibTorch and CUDA, tests labelled cpu
  asan          the same under AddressSanitizer and UndefinedBehaviorSanitizer
  tsan          the same under ThreadSanitizer
  tidy          clang-tidy finds nothing
  tests         all tests of the release build; those that need a GPU say why they skip

Environment: STEPLENS_JOBS, compilers and tests at once (default: all cores).
TXT
}

chosen=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage; exit ;;
    all) chosen=("${stages[@]}"); continue ;;
  esac
  [[ " ${stages[*]} " == *" $argument "* ]] || { echo "test.sh: unknown stage '$argument'; allowed: ${stages[*]}" >&2; exit 2; }
  chosen+=("$argument")
done
((${#chosen[@]})) || chosen=("${usual[@]}")
jobs=${STEPLENS_JOBS:-$(nproc)}

build() {  # build PRESET [TARGET...]
  cmake --preset "$1" -DSTEPLENS_TESTS=ON --log-level=WARNING >/dev/null
  cmake --build --preset "$1" -j "$jobs" ${2:+--target "${@:2}"}
}

build_and_test() {
  build "$1"
  local runner=()
  # ThreadSanitizer of GCC 12 cannot start where addresses are randomised by more than 28 bits.
  if [[ $1 == tsan && $(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28) -gt 28 ]]; then
    runner=(setarch "$(uname -m)" -R)
  fi
  "${runner[@]}" ctest --preset "$1" -j "$jobs"
}

run_stage() {
  case $1 in
    setup) scripts/setup.sh --dev ;;
    format) scripts/format.sh --check ;;
    architecture) scripts/check_includes.py ;;
    release) build release ;;
    headers) build release all_verify_interface_header_sets ;;
    cpu | asan | tsan) build_and_test "$1" ;;
    tidy) STEPLENS_JOBS=$jobs scripts/tidy.sh ;;
    tests) ctest --preset release -j "$jobs" ;;
  esac
}

timings=()
print_timings() {
  printf '\n%-14s %8s\n' stage seconds
  printf '%s\n' "${timings[@]}"
}

for stage in "${stages[@]}"; do
  [[ " ${chosen[*]} " == *" $stage "* ]] || continue
  [[ $stage == tests ]] && ((${#timings[@]})) && print_timings
  printf '\n==== %s\n' "$stage"
  begin=$SECONDS
  # Not in a condition: that would switch `set -e` off inside.
  trap 'printf "\ntest.sh: stage %s FAILED\n" "$stage" >&2' EXIT
  run_stage "$stage"
  trap - EXIT
  timings+=("$(printf '%-14s %8d' "$stage" $((SECONDS - begin)))")
done
[[ " ${chosen[*]} " == *" tests "* ]] || print_timings
