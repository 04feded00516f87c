#!/usr/bin/env bash
# From a fresh checkout to the first report, in one command.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help)
    cat <<'TXT'
usage: scripts/quickstart.sh [arguments of `steplens matrix`]

Installs what is missing (scripts/setup.sh), builds, prepares the default corpus, measures the default
matrix on this machine's GPU (or on its CPU, with a small model) and writes a report below runs/.

  scripts/quickstart.sh --max-seconds 120
  scripts/quickstart.sh --toggles 'attention=math|flash,graph'
TXT
    exit
    ;;
esac

scripts/setup.sh
STEPLENS_TORCH=$(cmake/find_torch.sh)  # The default corpus is the Python text in there.
export STEPLENS_TORCH

echo "quickstart: building"
cmake --preset release --log-level=WARNING >/dev/null
cmake --build --preset release --target steplens steplens-worker steplens-viewer

steplens=build/release/bin/steplens
# Seven rounds: an exact test can reach p = 1/64 with them, in under six minutes on two cores.
arguments=("$@")
((${#arguments[@]})) || arguments=(--toggles attention,accumulation=4,graph,optimizer,checkpoint --rounds 7)

out=runs/quickstart-$(date +%Y%m%d-%H%M%S)
echo "quickstart: measuring; a run that is interrupted goes on with: $steplens matrix --resume $out"
status=0
"$steplens" matrix --out "$out" "${arguments[@]}" || status=$?
((status == 0)) || exit "$status"

cat <<TXT

The report:  $out/report.html  (one file, for a browser; report.md says the same)
Try next:
  $steplens-viewer $out  look at it in a window
  $steplens report $out        print it again
  $steplens verify $out        recompute every number from the raw blocks
  $steplens trace              one trace, and where a step's time goes
  $steplens list toggles       what else can be switched
  $steplens matrix --help      pick toggles, a model, the number of rounds
TXT
