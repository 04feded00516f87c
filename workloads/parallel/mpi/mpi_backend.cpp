#include "workloads/parallel/mpi/mpi_backend.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>
#include <mpi.h>

namespace steplens {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;

// While a collective waits for another rank, its core is that rank's: it polls in bursts. A burst
// long enough moves whatever fragments have arrived.
constexpr int kPollsInBurst = 64;
constexpr auto kPauseBetweenBursts = std::chrono::microseconds(20);

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  TORCH_CHECK(false, call, ": ", std::string(text, static_cast<std::size_t>(length)));
}

int count_of(std::int64_t count) {
  TORCH_CHECK(count <= std::numeric_limits<int>::max(), "MPI takes at most 2^31 - 1 elements, not ",
              count);
  return static_cast<int>(count);
}

// MPI knows no 16-bit floats: they travel as integers and are added by a function of ours.
template <typename Half>
void add_halves(void* in, void* in_out, int* count, MPI_Datatype* /*type*/) {
  const auto* terms = static_cast<const Half*>(in);
  auto* sums = static_cast<Half*>(in_out);
  for (int i = 0; i < *count; ++i) {
    sums[i] = static_cast<Half>(static_cast<float>(sums[i]) + static_cast<float>(terms[i]));
  }
}

// Made once MPI runs, freed before it ends.
struct HalfSums {
  MPI_Op bf16 = MPI_OP_NULL;
  MPI_Op fp16 = MPI_OP_NULL;

  void make() {
    check_mpi(MPI_Op_create(&add_halves<c10::BFloat16>, /*commute=*/1, &bf16), "MPI_Op_create");
    check_mpi(MPI_Op_create(&add_halves<c10::Half>, /*commute=*/1, &fp16), "MPI_Op_create");
  }
  void free() {
    MPI_Op_free(&bf16);
    MPI_Op_free(&fp16);
  }
};

// How MPI adds up tensors of a type; bytes would do where nothing is added.
struct Summation {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_SUM;
};
Summation summation_of(const at::Tensor& tensor, const HalfSums& halves) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return {.type = MPI_FLOAT};
    case at::kDouble: return {.type = MPI_DOUBLE};
    case at::kInt: return {.type = MPI_INT32_T};
    case at::kLong: return {.type = MPI_INT64_T};
    case at::kByte: return {.type = MPI_UINT8_T};
    case at::kBFloat16: return {.type = MPI_UINT16_T, .op = halves.bf16};
    case at::kHalf: return {.type = MPI_UINT16_T, .op = halves.fp16};
    default: break;
  }
  TORCH_CHECK(false, "MPI sums no tensors of type ", tensor.scalar_type());
}

const at::Tensor& only_tensor(const Tensors& tensors, const char* name) {
  TORCH_CHECK(tensors.size() == 1, name, " takes one tensor, not ", tensors.size());
  const at::Tensor& tensor = tensors.front();
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
                  tensor.is_non_overlapping_and_dense(),
              name, " over MPI takes a dense CPU tensor");
  return tensor;
}

class MpiWork final : public c10d::Work {
 public:
  MpiWork(int rank, c10d::OpType type, Tensors outputs)
      : Work(rank, type),
        outputs_(std::move(outputs)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  Tensors result() override { return outputs_; }
  // The Reducer reads the result of a collective from here, as a list of tensors.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  void end(const std::exception_ptr& error) {
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(c10::IValue(outputs_));
    }
    finish(error);
  }

 private:
  Tensors outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class MpiBackend final : public c10d::Backend {
 public:
  explicit MpiBackend(MpiBackendOptions options)
      : Backend(options.rank, options.world_size),
        options_(std::move(options)) {
    std::promise<std::string> started;
    thread_ = std::thread([this, &started] { run(started); });
    failure_ = started.get_future().get();
  }

  ~MpiBackend() override {
    {
      const std::scoped_lock lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Why it cannot be used; empty if it can.
  const std::string& failure() const { return failure_; }

  const std::string getBackendName() const override { return "steplens_mpi"; }

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override {
    const at::Tensor tensor = only_tensor(tensors, "broadcast");
    const int root = static_cast<int>(options.rootRank);
    return enqueue(c10d::OpType::BROADCAST, "broadcast", tensors, [tensor, root](MPI_Request* r) {
      check_mpi(MPI_Ibcast(tensor.mutable_data_ptr(),
                           count_of(static_cast<std::int64_t>(tensor.nbytes())), MPI_BYTE, root,
                           MPI_COMM_WORLD, r),
                "MPI_Ibcast");
    });
  }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override {
    const at::Tensor tensor = only_tensor(tensors, "all-reduce");
    TORCH_CHECK(options.reduceOp.op_ == c10d::ReduceOp::SUM, "all-reduce over MPI only sums");
    const Summation sum = summation_of(tensor, half_sums_);
    return enqueue(c10d::OpType::ALLREDUCE, "all-reduce", tensors, [tensor, sum](MPI_Request* r) {
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, tensor.mutable_data_ptr(), count_of(tensor.numel()),
                               sum.type, sum.op, MPI_COMM_WORLD, r),
                "MPI_Iallreduce");
    });
  }

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& /*options*/) override {
    const at::Tensor input = only_tensor(inputs, "allgather").contiguous();
    TORCH_CHECK(outputs.size() == 1 && outputs.front().size() == static_cast<std::size_t>(size_),
                "allgather takes one list with a tensor for each rank");
    const at::Tensor all = at::empty({size_, input.numel()}, input.options());
    const Tensors parts = outputs.front();
    return enqueue(
        c10d::OpType::ALLGATHER, "allgather", parts,
        [input, all](MPI_Request* r) {
          const int num_bytes = count_of(static_cast<std::int64_t>(input.nbytes()));
          check_mpi(MPI_Iallgather(input.const_data_ptr(), num_bytes, MPI_BYTE,
                                   all.mutable_data_ptr(), num_bytes, MPI_BYTE, MPI_COMM_WORLD, r),
                    "MPI_Iallgather");
        },
        [all, parts] {
          for (std::size_t i = 0; i < parts.size(); ++i) {
            at::Tensor part = parts[i];
            part.copy_(all.select(0, static_cast<std::int64_t>(i)).view_as(part));
          }
        });
  }

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& /*options*/) override {
    return enqueue(c10d::OpType::BARRIER, "barrier", {}, [](MPI_Request* r) {
      check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, r), "MPI_Ibarrier");
    });
  }

 private:
  struct Collective {
    const char* name = "";
    c10::intrusive_ptr<MpiWork> work;
    std::function<void(MPI_Request*)> begin;
    std::function<void()> end;  // May be empty.
  };

  c10::intrusive_ptr<c10d::Work> enqueue(c10d::OpType type, const char* name, Tensors outputs,
                                         std::function<void(MPI_Request*)> begin,
                                         std::function<void()> end = {}) {
    auto work = c10::make_intrusive<MpiWork>(rank_, type, std::move(outputs));
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back({name, work, std::move(begin), std::move(end)});
    }
    changed_.notify_all();
    return work;
  }

  // However a collective ends.
  class Ending {
   public:
    [[nodiscard]] explicit Ending(const std::function<void()>& end) : end_(end) {}
    ~Ending() {
      if (end_) end_();
    }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

   private:
    const std::function<void()>& end_;
  };

  void run(std::promise<std::string>& started) {
    const std::string failure = start_mpi();
    const bool is_usable = failure.empty();
    started.set_value(failure);  // Gone from here on.
    while (is_usable) {
      Collective next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
        if (queue_.empty()) break;
        next = std::move(queue_.front());
        queue_.pop_front();
      }
      run_collective(next);
    }
    // After a collective that never ended MPI_Finalize would wait for ever; mpirun ends the others
    // when this process ends without it.
    if (is_usable && !has_failed_) {
      half_sums_.free();
      MPI_Finalize();
    }
  }

  std::string start_mpi() {
    int is_initialized = 0;
    MPI_Initialized(&is_initialized);
    if (is_initialized != 0) return "MPI was started before in this process";
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      return "MPI_Init_thread failed";
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == rank_ && size == size_) {
      half_sums_.make();
      return "";
    }
    MPI_Finalize();
    return fmt::format(
        "MPI has this process as rank {} of {}, and the block has it as rank {} of {}; CPU ranks "
        "exchange gradients over MPI, so start all of them by one mpirun -n {}",
        rank, size, rank_, size_, size_);
  }

  void run_collective(Collective& collective) {
    std::exception_ptr error;
    try {
      TORCH_CHECK(!has_failed_, collective.name, " over MPI: an earlier collective had failed");
      if (options_.on_collective_begin) options_.on_collective_begin(collective.name);
      const Ending ending(options_.on_collective_end);
      MPI_Request request = MPI_REQUEST_NULL;
      collective.begin(&request);
      wait(request, collective.name);
      if (collective.end) collective.end();
    } catch (...) {
      has_failed_ = true;
      error = std::current_exception();
    }
    collective.work->end(error);
  }

  void wait(MPI_Request& request, const char* name) const {
    // A process that was stopped itself has not waited: else, once it goes on, it would blame
    // others.
    constexpr double kLongestLookS = 0.25;
    double waited_s = 0;
    auto last_look = Clock::now();
    while (true) {
      for (int i = 0; i < kPollsInBurst; ++i) {
        int is_done = 0;
        check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
        if (is_done != 0) return;
      }
      const auto now = Clock::now();
      waited_s += std::min(std::chrono::duration<double>(now - last_look).count(), kLongestLookS);
      last_look = now;
      TORCH_CHECK(waited_s < options_.timeout_s, "rank ", rank_, " waited ",
                  fmt::format("{:.0f}", options_.timeout_s), " s for the other ranks in ", name);
      std::this_thread::sleep_for(kPauseBetweenBursts);
    }
  }

  MpiBackendOptions options_;
  HalfSums half_sums_;  // Set before the constructor is done.
  std::string failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Collective> queue_;
  bool is_ending_ = false;
  bool has_failed_ = false;  // Of the communication thread.
  std::thread thread_;
};

}  // namespace
}  // namespace steplens

extern "C" __attribute__((visibility("default"))) c10::intrusive_ptr<c10d::Backend>
steplens_make_mpi_backend(const steplens::MpiBackendOptions& options, std::string& failure) {
  auto backend = c10::make_intrusive<steplens::MpiBackend>(options);
  failure = backend->failure();
  if (!failure.empty()) return {};
  return backend;
}
