#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "harness/trace/trace_reader.h"
#include "viewer/data/load_progress.h"
#include "viewer/data/trace_model.h"

namespace steplens {

/// Makes a TraceModel of rows as they come: no table of the trace is ever whole in memory. Each
/// chunk goes into slices of its own, which are joined lane by lane at the end.
class ModelBuilder : public RowSink {
 public:
  explicit ModelBuilder(LoadProgress* progress = nullptr);

  void begin(const Trace& trace, TableExtent gpu_ops, TableExtent apis,
             TableExtent range_instances) override;
  void take(std::span<const GpuOp> rows, RowPlace place) override;
  void take(std::span<const Api> rows, RowPlace place) override;
  void take(std::span<const RangeInstance> rows, RowPlace place) override;

  /// `tables`: what `begin` was given, now complete.
  std::shared_ptr<const TraceModel> finish(Trace tables, int num_threads);

 private:
  // Slices of one lane, of one chunk.
  struct Part {
    std::uint64_t lane_key = 0;
    std::vector<Slice> slices;
  };
  struct Chunk {
    std::vector<Part> parts;
    std::size_t last_part = 0;
    std::size_t num_rows = 0;
    std::vector<std::pair<std::int32_t, std::int64_t>> step_starts;  // Step, first start of a run.
    std::vector<std::pair<std::uint32_t, std::int64_t>> values;  // Bytes; return values; by row.
    std::int64_t start_ns, end_ns;
    bool has_times = false;

    std::vector<Slice>& part(std::uint64_t lane_key);
    void see(std::int64_t slice_start_ns, std::int64_t slice_end_ns);
  };
  using Chunks = std::vector<Chunk>;

  std::uint64_t lane_key_of(const GpuOp& op, NameId name);
  bool is_communication(NameId name);
  void add_lane(LaneKind kind, std::uint64_t lane_key);
  void plan_lanes(const Chunks& chunks, LaneKind kind);
  void make_lane_rows(Lane& lane, std::uint64_t lane_key, Chunks& chunks);
  void make_all_rows(int num_threads);
  void fill_missing_rows();
  void find_step_bounds();
  void name_lanes();

  LoadProgress* progress_;
  std::shared_ptr<TraceModel> model_;
  std::mutex mutex_;  // Of graph_node_ids.
  std::atomic<bool> has_graph_nodes_ = false;
  std::vector<std::uint8_t> is_operation_name_;
  std::vector<std::uint8_t> communication_names_;  // By NameId: not known yet, no, yes.
  Chunks op_chunks_, api_chunks_, instance_chunks_;
  std::vector<std::uint64_t> lane_keys_;  // As model_->lanes.
};

}  // namespace steplens
