#include "kernels/gemm/tune.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cuda_check.h"
#include "kernels/gemm/compare.h"
#include "kernels/gemm/search.h"

namespace steplens {
namespace {

// Beside the heuristic's first. Who comes that far is decided at full clocks by single runs, so
// that many do; then one turn under the power limit, and the best of it in several.
constexpr std::size_t kMaxOfferedInSemifinal = 7;
constexpr std::size_t kMaxFoundInSemifinal = 16;
constexpr std::size_t kNumFinalists = 5;
constexpr int kNumFinalRounds = 3;
constexpr double kMinGain = 0.005;
// A shorter product is not worth the seconds that looking further takes.
constexpr double kMinSearchedUs = 40;
constexpr int kNumExpansions = 3;
// Of one timing. Large products run a GPU into its power limit within milliseconds; from then on
// what they take is the energy that they need, and the fastest at full clocks need not be best. A
// product of microseconds does not, and is repeated 1000 times at most.
constexpr double kMaxTimedUs = 100'000;
constexpr double kMaxSemifinalUs = 50'000;
constexpr double kMaxRuns = 1000;
constexpr int kNumScreeningRuns = 3;
constexpr double kWorthScreening = 1.2;
// Another order of its sums moves a bf16 result by one rounding at most.
constexpr double kMaxDistance = 0.0078125;

struct Algorithm {
  cublasLtMatmulAlgo_t value{};

  bool operator==(const Algorithm& other) const {
    return std::memcmp(value.data, other.value.data, sizeof value.data) == 0;
  }
};

using TimedAlgorithm = TimedPoint<Algorithm>;

class Event {
 public:
  Event() { SL_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Device memory; null if there is none.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes) {
    if (cudaMalloc(&data_, bytes) != cudaSuccess) {
      cudaGetLastError();  // Not an error of what follows.
      data_ = nullptr;
    }
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::size_t result_bytes(const GemmShape& shape) {
  return static_cast<std::size_t>(shape.M * shape.N * element_bytes(shape.output_type));
}

// Runs algorithms on the operands of `args`, writing to its C.
class Trial {
 public:
  Trial(const GemmPlan& plan, const GemmArgs& args, cudaStream_t stream)
      : plan_(plan),
        args_(args),
        stream_(stream) {}

  // Mean time of one product; infinite if the algorithm fails.
  double time_us(const Algorithm& algorithm, int num_runs) const {
    SL_CUDA(cudaEventRecord(start_.get(), stream_));
    for (int i = 0; i < num_runs; ++i) {
      if (plan_.run(args_, algorithm.value, kGemmWorkspaceBytes, stream_) !=
          CUBLAS_STATUS_SUCCESS) {
        cudaGetLastError();
        return HUGE_VAL;
      }
    }
    SL_CUDA(cudaEventRecord(end_.get(), stream_));
    SL_CUDA(cudaEventSynchronize(end_.get()));
    float elapsed_ms = 0;
    SL_CUDA(cudaEventElapsedTime(&elapsed_ms, start_.get(), end_.get()));
    return 1e3 * static_cast<double>(elapsed_ms) / num_runs;
  }

  // For a first order among many: those that take much longer than `best_us` run once.
  double screen_us(const Algorithm& algorithm, double best_us) const {
    if (time_us(algorithm, 1) == HUGE_VAL) return HUGE_VAL;  // The first run loads the kernel.
    const double once_us = time_us(algorithm, 1);
    return once_us > kWorthScreening * best_us ? once_us : time_us(algorithm, kNumScreeningRuns);
  }

  // Fills C with NaN, then with the product; false if the algorithm fails.
  bool fill(const Algorithm& algorithm, void* c) const {
    GemmArgs args = args_;
    args.c = c;
    SL_CUDA(cudaMemsetAsync(c, 0xFF, result_bytes(args.shape), stream_));
    const bool is_ok =
        plan_.run(args, algorithm.value, kGemmWorkspaceBytes, stream_) == CUBLAS_STATUS_SUCCESS;
    if (!is_ok) cudaGetLastError();
    return is_ok;
  }

  const GemmArgs& args() const { return args_; }

 private:
  const GemmPlan& plan_;
  const GemmArgs& args_;
  cudaStream_t stream_;
  Event start_, end_;
};

std::vector<TimedAlgorithm> time_offers(const GemmPlan& plan, const Trial& trial) {
  std::vector<TimedAlgorithm> points;
  double best_us = HUGE_VAL;
  for (const cublasLtMatmulAlgo_t& offer : plan.candidates()) {
    const double time_us = trial.screen_us({offer}, best_us);
    best_us = std::min(best_us, time_us);
    points.push_back({.point = {offer}, .time_us = time_us, .is_offered = true});
  }
  return points;
}

// cuBLASLt answers for its heuristic's offers. What else its checks let through must have the
// first offer's result before it is taken. Without memory to compare in, nothing else is.
void look_further(const GemmPlan& plan, const Trial& trial, std::vector<TimedAlgorithm>& points) {
  double best_us = HUGE_VAL;
  for (const TimedAlgorithm& point : points) best_us = std::min(best_us, point.time_us);
  widen_search(
      points, kNumExpansions,
      [&](const Algorithm& algorithm) {
        std::vector<Algorithm> result;
        for (const auto& value : plan.neighbours(algorithm.value)) result.push_back({value});
        return result;
      },
      [&](const Algorithm& algorithm) {
        const double time_us = trial.screen_us(algorithm, best_us);
        best_us = std::min(best_us, time_us);
        return time_us;
      });
}

void drop_wrong_results(const Trial& trial, std::vector<TimedAlgorithm>& points,
                        cudaStream_t stream) {
  const GemmShape& shape = trial.args().shape;
  const Buffer expected(result_bytes(shape));
  const Buffer sums(2 * sizeof(double));
  const bool is_comparable = expected.data() != nullptr && sums.data() != nullptr &&
                             trial.fill(points.front().point, expected.data());
  std::erase_if(points, [&](const TimedAlgorithm& point) {
    if (point.is_offered) return false;
    if (!is_comparable || !trial.fill(point.point, trial.args().c)) return true;
    const double distance =
        relative_distance(trial.args().c, expected.data(), shape.M * shape.N, shape.output_type,
                          static_cast<double*>(sums.data()), stream);
    return !(distance <= kMaxDistance);
  });
}

int num_runs_in(double limit_us, const TimedAlgorithm& point) {
  return static_cast<int>(std::clamp(limit_us / std::max(1.0, point.time_us), 3.0, kMaxRuns));
}

// The heuristic's first stays first, whatever its time.
void keep_best_under_load(const Trial& trial, std::vector<TimedAlgorithm>& points) {
  if (points.size() <= 1 + kNumFinalists) return;
  const int num_runs = num_runs_in(kMaxSemifinalUs, points.front());
  for (std::size_t i = 1; i < points.size(); ++i) {
    points[i].time_us = trial.time_us(points[i].point, num_runs);
  }
  std::ranges::sort(points.begin() + 1, points.end(), {}, &TimedAlgorithm::time_us);
  points.resize(1 + kNumFinalists);
}

// In turns, so that the power limit, under which a training step runs, has its say.
GemmAlgorithm fastest(const Trial& trial, const std::vector<TimedAlgorithm>& points) {
  const int num_runs = num_runs_in(kMaxTimedUs, points.front());
  std::vector<std::vector<double>> times_us(points.size());
  for (int round = 0; round < kNumFinalRounds; ++round) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      times_us[i].push_back(trial.time_us(points[i].point, num_runs));
    }
  }
  const double heuristic_us = median(times_us.front());
  GemmAlgorithm result{.value = points.front().point.value};
  double chosen_us = heuristic_us;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double time_us = median(times_us[i]);
    if (time_us >= chosen_us || time_us > heuristic_us * (1 - kMinGain)) continue;
    chosen_us = time_us;
    result.value = points[i].point.value;
  }
  result.heuristic_ns = std::llround(1e3 * heuristic_us);
  result.chosen_ns = std::llround(1e3 * chosen_us);
  return result;
}

}  // namespace

GemmAlgorithm tune(const GemmPlan& plan, const GemmArgs& args, cudaStream_t stream) {
  // A product that is added to C itself adds to zeros, and elsewhere.
  const bool is_in_place = args.shape.is_added && args.r == nullptr;
  const std::size_t bytes = is_in_place ? result_bytes(args.shape) : 1;
  const Buffer zeros(bytes);
  const Buffer scratch(bytes);
  GemmArgs own = args;
  if (is_in_place) {
    own.r = zeros.data();
    own.c = zeros.data() == nullptr ? nullptr : scratch.data();
  }
  if (own.c == nullptr) {
    const std::vector<cublasLtMatmulAlgo_t> offers = plan.candidates();
    return {.value = offers.front(), .num_candidates = static_cast<int>(offers.size())};
  }
  if (is_in_place) SL_CUDA(cudaMemsetAsync(zeros.data(), 0, bytes, stream));

  const Trial trial(plan, own, stream);
  std::vector<TimedAlgorithm> points = time_offers(plan, trial);
  if (points.front().time_us == HUGE_VAL) {
    throw_gemm_error(args.shape, "cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
  }
  if (points.front().time_us >= kMinSearchedUs) look_further(plan, trial, points);
  const int num_candidates = static_cast<int>(points.size());
  points = finalists(std::move(points), kMaxOfferedInSemifinal, kMaxFoundInSemifinal);
  drop_wrong_results(trial, points, stream);
  keep_best_under_load(trial, points);
  GemmAlgorithm result = points.size() == 1 ? GemmAlgorithm{.value = points.front().point.value}
                                            : fastest(trial, points);
  result.num_candidates = num_candidates;
  return result;
}

}  // namespace steplens
