#pragma once

#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace steplens {

/// What the Reducer does with a full bucket instead of an all-reduce of its own: gradients are
/// divided by the number of ranks and travel as `wire_type`, in which they are added up too.
///
/// Deferred, no bucket leaves before the last one is full: then all of them, in order. The backward
/// pass is over by then, so nothing overlaps it, and buckets are the same as otherwise.
///
/// Only for owners of c10d's headers.
class BucketHook final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  BucketHook(c10::intrusive_ptr<c10d::ProcessGroup> group, at::ScalarType wire_type,
             bool is_deferred)
      : CppCommHookInterface(std::move(group)),
        wire_type_(wire_type),
        is_deferred_(is_deferred) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;

 private:
  struct Waiting {
    at::Tensor gradients;
    c10::intrusive_ptr<c10::ivalue::Future> future;
  };
  at::Tensor on_wire(const at::Tensor& gradients) const;
  c10::intrusive_ptr<c10d::Work> send(const at::Tensor& wire);
  void send_waiting();

  at::ScalarType wire_type_;
  bool is_deferred_;
  std::vector<Waiting> waiting_;  // Buckets of this backward pass.
};

}  // namespace steplens
