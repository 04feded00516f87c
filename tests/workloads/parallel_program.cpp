// One rank of a world that trains the tiny model on the steps of parallel_steps.h, correctly or
// with a fault that data-parallel training loops have had. Its file result.RANK.json then holds the
// parameters, and how many all-reduces the last full step made.
//
//   parallel_program FOLDER NUM_STEPS FAULT [KEY=VALUE ...]

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/workloads/parallel_steps.h"
#include <fmt/format.h>

#include "harness/files.h"
#include "workloads/attention.h"
#include "workloads/device_info.h"
#include "workloads/evidence.h"
#include "workloads/parallel/gradient_reducer.h"

namespace steplens {
namespace {

// Passes on to a reducer what a broken loop would tell it.
class FaultySync final : public GradientSync {
 public:
  FaultySync(GradientSync& reducer, std::string_view fault) : reducer_(reducer), fault_(fault) {}

  void before_forward(bool is_last) override { reducer_.before_forward(believed(is_last)); }
  void before_backward(bool is_last) override {
    reducer_.before_backward(believed(is_last));
    is_first_ = is_last;
  }

 private:
  bool believed(bool is_last) const {
    if (fault_ == "sync_first") return is_first_;
    if (fault_ == "never_sync") return false;
    if (fault_ == "always_sync") return true;
    return is_last;
  }
  GradientSync& reducer_;
  std::string_view fault_;
  bool is_first_ = true;  // Of a step's micro-steps.
};

void run(const std::filesystem::path& folder, std::int64_t num_steps, std::string_view fault,
         const std::vector<std::string>& settings) {
  RunConfig config = tiny_config();
  config.world_size = 2;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    set_config_field(config, setting.substr(0, equals), setting.substr(equals + 1));
  }
  const RankPlace place =
      place_in_block([](const char* name) { return std::getenv(name); }, /*world_size=*/2);
  prepare_process(config, "");
  force_attention(config.attention);
  const auto world = World::join({.config = config,
                                  .rank = place.rank,
                                  .world_size = 2,
                                  .collective_timeout_s = 60,
                                  .output_folder = folder},
                                 place);
  std::vector<DeviceStep> steps = make_world_steps(config, num_steps);
  // Rank 1 draws other weights: those of rank 0 must arrive before the first step.
  RunConfig drawn = config;
  drawn.seed += static_cast<std::uint64_t>(place.rank);
  TrainStep train_step(drawn, num_steps);
  std::vector<at::Tensor> parameters;
  for (const Parameter& parameter : train_step.model().parameters()) {
    parameters.push_back(parameter.value);
  }
  GradientReducer reducer(config, parameters, *world);
  FaultySync sync(reducer, fault);
  train_step.synchronize_with(sync);
  nlohmann::json num_all_reduces;
  nlohmann::json num_bytes;
  for (std::int64_t i = 0; i < num_steps; ++i) {
    DeviceStep share = share_of(steps[static_cast<std::size_t>(i)], place.rank, 2);
    if (fault == "mean_of_ranks") {
      share.num_loss_tokens = 0;
      for (const DeviceMicroBatch& micro : share.micro_batches) {
        share.num_loss_tokens += 2 * num_targets_of(micro);
      }
    }
    const OperatorCounter counter;
    train_step.run(share);
    const Counters counts = counter.counts();
    const auto found = counts.find("c10d::allreduce_");
    if (share.micro_batches.size() == 4) {
      num_all_reduces = found == counts.end() ? 0 : found->second;
      num_bytes = counter.all_reduce_bytes();
    }
  }
  write_json_atomically(folder / fmt::format("result.{}.json", place.rank),
                        {{"parameters", flat_parameters(train_step.model())},
                         {"all_reduces_per_step", num_all_reduces},
                         {"all_reduce_bytes", num_bytes},
                         {"num_late", event_counts()["all_reduces_after_backward"]}});
}

}  // namespace
}  // namespace steplens

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  steplens::run(argv[1], std::stoll(argv[2]), argv[3], {argv + 4, argv + argc});
  return 0;
}
