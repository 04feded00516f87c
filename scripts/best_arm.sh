#!/usr/bin/env bash
# The fastest arm beside PyTorch's own, or without one of its switches at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TXT'
usage: scripts/best_arm.sh torch|switches [MODEL] [arguments of `steplens matrix`]

The baseline is the step with every fused operator, bf16 weights and cuDNN attention; MODEL is
gpt2-124m unless given. Needs a GPU and a build.

  torch      arms: the same as one CUDA graph, eager PyTorch, torch.compile and its modes
  switches   arms: the baseline without each of its switches, and as one CUDA graph

  scripts/best_arm.sh torch --rounds 12 --out runs/best-torch
  scripts/best_arm.sh torch llama-1b --rounds 6 --warmup 20 --steps 15
  scripts/best_arm.sh switches --dry-run
TXT
}

case "${1:-}" in
  torch) what=(--toggles graph
    --arms baseline,torch-eager,torch-compile,torch-compile-reduce-overhead,torch-compile-max-autotune) ;;
  switches) what=(--toggles 'graph,norm,rope,mlp,loss,embedding,optimizer=fused,weights,attention=flash') ;;
  -h | --help) usage; exit ;;
  *) usage >&2; exit 2 ;;
esac
shift
model=gpt2-124m
if [[ $# -gt 0 && $1 != -* ]]; then
  model=$1
  shift
fi

best=()
for setting in norm=fused rope=fused mlp=fused loss=fused embedding=fused optimizer=multi_tensor \
  weights=bf16_master attention=cudnn; do
  best+=(--set "$setting")
done
exec "${STEPLENS:-build/release/bin/steplens}" matrix --model "$model" "${best[@]}" "${what[@]}" "$@"
