#!/usr/bin/env bash
# Builds a fuzz target with clang 19 and its sanitizers, and runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help)
    cat <<'TXT'
usage: scripts/fuzz.sh [LIBFUZZER_OPTION...]

Fuzzes the reader of trace.slt, one million inputs unless an option says otherwise, from the corpus
in build/fuzz/trace_corpus, which grows. A crash ends it; the input is then in build/fuzz.
  scripts/fuzz.sh -runs=10000000       ten million inputs
  scripts/fuzz.sh build/fuzz/crash-*   that input again
TXT
    exit
    ;;
esac

compiler=$(command -v clang++-19 || true)
probe='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
if [[ -z $compiler ]] || ! "$compiler" -x c++ -fsanitize=fuzzer,address - -o /dev/null <<<"$probe" 2>/dev/null; then
  echo "fuzz.sh: needs packages: apt-get install clang-19 libclang-rt-19-dev" >&2
  exit 77
fi

folder=build/fuzz
mkdir -p "$folder/trace_corpus"
flags=(-std=c++20 -O2 -g1 -DFMT_HEADER_ONLY -I. -fsanitize=fuzzer,address,undefined
  -fno-sanitize-recover=all -Wall -Wextra -Wno-missing-field-initializers)
sources=(harness/trace/{columns,crc32c,trace,trace_format,trace_reader,trace_writer}.cpp harness/{files,error}.cpp)
"$compiler" "${flags[@]}" tests/fuzz/trace_fuzz.cpp "${sources[@]}" \
  -o "$folder/trace_fuzz" -lzstd -lcrypto

# What these leave out costs half of the time and finds nothing here.
export ASAN_OPTIONS=detect_stack_use_after_return=0:malloc_context_size=4:quarantine_size_mb=16${ASAN_OPTIONS:+:$ASAN_OPTIONS}
options=(-max_len=2500 -rss_limit_mb=2048 -artifact_prefix="$folder/" -print_final_stats=1)
if (($# == 1)) && [[ -f $1 ]]; then
  exec "$folder/trace_fuzz" "${options[@]}" "$1"
fi
[[ " $* " == *" -runs="* || " $* " == *" -max_total_time="* ]] || options+=(-runs=1000000)
exec "$folder/trace_fuzz" "${options[@]}" "$@" "$folder/trace_corpus" tests/harness/data
