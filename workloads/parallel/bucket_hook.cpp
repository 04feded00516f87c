#include "workloads/parallel/bucket_hook.h"

#include <iterator>
#include <utility>

#include <ATen/core/jit_type.h>

#include "workloads/evidence.h"

namespace steplens {
namespace {

using c10::ivalue::Future;

c10::intrusive_ptr<Future> make_future(const at::Tensor& tensor) {
  std::vector<c10::Device> devices;
  if (tensor.is_cuda()) devices.push_back(tensor.device());
  return c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()),
                                     std::move(devices));
}

c10::IValue list_of(const at::Tensor& tensor) { return std::vector<at::Tensor>{tensor}; }

}  // namespace

at::Tensor BucketHook::on_wire(const at::Tensor& gradients) const {
  // Divided first: a sum of 16-bit gradients overflows or loses more than their mean.
  at::Tensor wire = gradients.to(wire_type_);  // The same tensor if that is its type.
  wire.div_(state_->getSize());
  return wire;
}

c10::intrusive_ptr<c10d::Work> BucketHook::send(const at::Tensor& wire) {
  std::vector<at::Tensor> tensors = {wire};
  return state_->allreduce(tensors);
}

c10::intrusive_ptr<Future> BucketHook::runHook(c10d::GradBucket& bucket) {
  const at::Tensor gradients = bucket.getBuffer();
  if (is_deferred_) {
    c10::intrusive_ptr<Future> future = make_future(gradients);
    waiting_.push_back({.gradients = gradients, .future = future});
    if (bucket.isLast()) send_waiting();
    return future;
  }
  c10::intrusive_ptr<Future> sent = send(on_wire(gradients))->getFuture();
  return sent->then(
      [gradients](Future& reduced) {
        const at::Tensor wire = reduced.value().toTensorVector().front();
        if (!wire.is_alias_of(gradients)) gradients.copy_(wire);
        return list_of(gradients);
      },
      sent->elementType());
}

void BucketHook::send_waiting() {
  const std::vector<Waiting> buckets = std::exchange(waiting_, {});
  std::vector<at::Tensor> wires;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (const Waiting& bucket : buckets) {
    wires.push_back(on_wire(bucket.gradients));
    works.push_back(send(wires.back()));
  }
  count_event("all_reduces_after_backward", std::ssize(buckets));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    works[i]->wait();  // On a GPU it is the stream that waits.
    const at::Tensor& gradients = buckets[i].gradients;
    if (!wires[i].is_alias_of(gradients)) gradients.copy_(wires[i]);
    buckets[i].future->markCompleted(list_of(gradients));
  }
}

}  // namespace steplens
