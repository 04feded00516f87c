#include "workloads/parallel/lone_backend.h"

#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace steplens {
namespace {

using Tensors = std::vector<at::Tensor>;

class DoneWork final : public c10d::Work {
 public:
  DoneWork(c10d::OpType type, Tensors outputs)
      : Work(/*rank=*/0, type),
        outputs_(std::move(outputs)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {
    future_->markCompleted(c10::IValue(outputs_));
    finish();
  }
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  Tensors outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class LoneBackend final : public c10d::Backend {
 public:
  LoneBackend() : Backend(/*rank=*/0, /*size=*/1) {}
  const std::string getBackendName() const override { return "steplens_lone"; }
  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& /*options*/) override {
    return c10::make_intrusive<DoneWork>(c10d::OpType::BROADCAST, tensors);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    return c10::make_intrusive<DoneWork>(c10d::OpType::ALLREDUCE, tensors);
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& /*options*/) override {
    outputs.at(0).at(0).copy_(inputs.at(0));
    return c10::make_intrusive<DoneWork>(c10d::OpType::ALLGATHER, outputs.at(0));
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& /*options*/) override {
    return c10::make_intrusive<DoneWork>(c10d::OpType::BARRIER, Tensors());
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_lone_backend() { return c10::make_intrusive<LoneBackend>(); }

}  // namespace steplens
