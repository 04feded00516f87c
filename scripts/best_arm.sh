#!/usr/bin/env bash
# The fastest arm beside PyTorch's own in one table, or the fastest arm without one of its switches.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TXT'
usage: scripts/best_arm.sh torch|switches [MODEL] [arguments of `steplens matrix`]

The fastest arm has every fused operator, measured matrix products, bf16 weights, cuDNN attention
and one CUDA graph a step; MODEL is gpt2-124m unless given. Needs a GPU and a build.

  torch      baseline: the eager step with cuDNN attention and PyTorch's fused AdamW. Arms: the
             fastest one; AOTInductor's package, and that in a graph; PyTorch eager, torch.compile
             and its modes, Hugging Face's Trainer. (Tuning every product takes torch.compile
             minutes; give --arms to choose others.)
  switches   baseline: the fastest arm. Arms: it without each of its switches

  scripts/best_arm.sh torch --rounds 12 --out runs/best-torch
  scripts/best_arm.sh torch llama-1b --rounds 6 --warmup 20 --steps 15
  scripts/best_arm.sh switches --dry-run
TXT
}

parts='norm=fused rope=fused mlp=fused loss=fused loss_rows=all embedding=fused residual=fused gemm=tuned optimizer=multi_tensor weights=bf16_master graph=on'
case "${1:-}" in
  torch)
    what=(--set attention=cudnn --set optimizer=fused --toggles compile=aoti)
    ours=(baseline "best:${parts// /+}" aoti-graph:compile=aoti+graph=on)
    theirs=(torch-eager torch-compile torch-compile-reduce-overhead torch-compile-max-autotune hf-trainer)
    if [[ " $* " != *' --arms '* ]]; then
      what+=(--arms "$(IFS=,; echo "${ours[*]},${theirs[*]}")")
    fi ;;
  switches)
    what=(--set attention=cudnn)
    for part in $parts; do what+=(--set "$part"); done
    what+=(--toggles 'norm,rope,mlp,loss,loss_rows=8192,embedding,residual,gemm,optimizer=fused,weights,attention=flash,graph') ;;
  -h | --help) usage; exit ;;
  *) usage >&2; exit 2 ;;
esac
shift
model=gpt2-124m
if [[ $# -gt 0 && $1 != -* ]]; then
  model=$1
  shift
fi
exec "${STEPLENS:-build/release/bin/steplens}" matrix --model "$model" "${what[@]}" "$@"
