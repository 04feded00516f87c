#pragma once

#include <map>
#include <string>

#include "harness/trace/trace.h"

namespace steplens {

/// What a trace shows about toggles, per optimizer step (means over the trace's steps):
/// - "kernels": device operations that are no copies; "copies", "host_copies_pinned",
///   "host_copies_pageable" (by the memory that they left or reached on the host);
/// - "kernels_<category>" of category_of; "operators" on a CPU;
/// - "attention_flash", "attention_cudnn", "attention_mem_efficient": kernels of that family;
///   "attention_forward": those that compute the forward pass; "attention_softmax": softmax kernels
///   in a range named "attention", which the fused families do not have;
/// - "triton_kernels": those that Inductor wrote;
/// - "norm_fused", "rope_fused", "mlp_fused", "loss_fused", "embedding_fused", "adamw_fused":
///   kernels of kernels/; "norm_aten", "loss_aten", "embedding_aten", "silu_aten": others that
///   compute the same part;
/// - "optimizer_kernels": operations of that phase;
/// - "graph_launches", "launch_calls" (of single kernels), "synchronize_calls", "device_allocs";
/// - "forward_ranges", "optimizer_ranges", "recomputed_blocks" (block ranges below backward),
///   "data_ranges_elsewhere" (on threads that run no step).
/// Goes into `evidence.trace_counters` of a trace's block.json; a claim names one as
/// "trace.<name>".
std::map<std::string, double> trace_counters(const Trace& trace);

}  // namespace steplens
