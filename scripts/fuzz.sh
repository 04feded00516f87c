#!/usr/bin/env bash
# Builds a fuzz target with clang 19 and its sanitizers, and runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TXT'
usage: scripts/fuzz.sh [trace|import] [LIBFUZZER_OPTION...]

Fuzzes the reader of trace.slt (default), or that of Chrome JSON, one million inputs unless an option
says otherwise, from the corpus in build/fuzz/TARGET_corpus, which grows. A crash ends it; the input
is then in build/fuzz.
  scripts/fuzz.sh -runs=10000000            ten million inputs
  scripts/fuzz.sh import -max_total_time=600  ten minutes of JSON
  scripts/fuzz.sh build/fuzz/crash-*        that input again
TXT
}

target=trace
case "${1:-}" in
  -h | --help) usage; exit ;;
  trace | import) target=$1; shift ;;
esac

compiler=$(command -v clang++-19 || true)
probe='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
if [[ -z $compiler ]] || ! "$compiler" -x c++ -fsanitize=fuzzer,address - -o /dev/null <<<"$probe" 2>/dev/null; then
  echo "fuzz.sh: needs packages: apt-get install clang-19 libclang-rt-19-dev" >&2
  exit 77
fi

folder=build/fuzz
mkdir -p "$folder/${target}_corpus"
flags=(-std=c++20 -O2 -g1 -DFMT_HEADER_ONLY -I. -fsanitize=fuzzer,address,undefined
  -fno-sanitize-recover=all -Wall -Wextra -Wno-missing-field-initializers)
options=(-rss_limit_mb=2048 -artifact_prefix="$folder/" -print_final_stats=1)
case $target in
  trace)
    sources=(harness/trace/{chunk_decoder,columns,crc32c,row_stream,trace,trace_format,trace_reader,trace_writer}.cpp harness/{files,error}.cpp)
    libraries=(-lzstd -lcrypto)
    options+=(-max_len=2500)
    seeds=tests/harness/data
    ;;
  import)
    sources=(harness/trace/{range_names,trace}.cpp harness/error.cpp reports/breakdown/{kernel_names,modules}.cpp reports/document.cpp
      reports/export/{op_names,utf8}.cpp reports/import/{chrome_event,chrome_import,chrome_ops,chrome_rows,tolerant_json,trace_assembler}.cpp)
    libraries=(-lz)
    options+=(-max_len=6000 -dict=tests/fuzz/chrome.dict)
    seeds=tests/fuzz/chrome_seeds
    ;;
esac
"$compiler" "${flags[@]}" "tests/fuzz/${target}_fuzz.cpp" "${sources[@]}" -o "$folder/${target}_fuzz" "${libraries[@]}"

# What these leave out costs half of the time and finds nothing here.
export ASAN_OPTIONS=detect_stack_use_after_return=0:malloc_context_size=4:quarantine_size_mb=16${ASAN_OPTIONS:+:$ASAN_OPTIONS}
if (($# == 1)) && [[ -f $1 ]]; then
  exec "$folder/${target}_fuzz" "${options[@]}" "$1"
fi
[[ " $* " == *" -runs="* || " $* " == *" -max_total_time="* ]] || options+=(-runs=1000000)
exec "$folder/${target}_fuzz" "${options[@]}" "$@" "$folder/${target}_corpus" "$seeds"
