#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/trace/trace.h"

namespace steplens {

/// Puts a trace together from the events of another program's file, whatever their order: the tree
/// of ranges from their nesting, the steps from their names, and for each operation range, phase
/// and step from the call that launched it.
class TraceAssembler {
 public:
  Trace& trace() { return trace_; }

  StringId text(std::string_view string);

  /// Row of the thread that the file calls so, which is added if it is new.
  std::uint32_t thread(std::string_view key, std::uint64_t tid);

  /// The same if there is one.
  std::optional<std::uint32_t> find_thread(std::string_view key) const;

  /// A range that was open. `path`: the names from the root, where nesting does not tell them.
  void add_range(std::uint32_t thread, std::int64_t start_ns, std::int64_t end_ns,
                 std::string_view name, std::string_view domain = {}, std::string_view path = {});

  /// Row of the range of that path, whose last part has that domain. Parents that are not there yet
  /// get the default domain.
  std::uint32_t range(std::string_view path, std::string_view domain = {});

  std::uint32_t launch_shape(const LaunchShape& shape);

  void add_quality(std::string_view name, std::int64_t count = 1);

  /// The earliest time of all rows; 0 if there are none.
  std::int64_t first_ns() const;
  /// Adds to all times.
  void shift(std::int64_t by_ns);

  struct FinishOptions {
    /// Operations have all that is known of them: nothing is derived from their launches.
    bool has_attributions = false;
    /// Trace::steps is filled: ranges that are called like steps are none.
    bool has_steps = false;
    /// Trace::quality is filled: what has no launch or range is in it already.
    bool has_quality = false;
  };
  /// The trace. The assembler is empty after it.
  Trace finish(const FinishOptions& options);

 private:
  struct OpenRange {
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::uint32_t thread;
    StringId name;
    StringId domain;
    std::uint32_t range;  // kNoRow: by nesting.
  };

  // Calls visit(time) for each time of each row.
  template <class Self, class Visit>
  static void for_each_time(Self& self, Visit visit);

  std::uint32_t child(std::uint32_t parent, StringId name, StringId domain);
  void build_ranges();
  template <class Row>
  void place(std::vector<Row>& rows) const;
  void place_operators();
  void set_range(GpuOp& op, std::uint32_t instance);
  void find_steps();
  void number_micro_steps();
  void attribute_ops();
  void find_phases();
  std::uint32_t innermost(const std::vector<std::uint32_t>& open, std::int64_t time_ns) const;
  std::int32_t step_at(std::int64_t time_ns) const;

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  Trace trace_;
  std::unordered_map<std::string, StringId, Hash, std::equal_to<>> ids_;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> threads_;
  std::map<std::pair<std::uint32_t, StringId>, std::vector<std::uint32_t>> children_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> paths_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> shapes_;
  std::vector<OpenRange> open_ranges_;
  std::vector<std::int32_t> micro_steps_;  // Of each range instance, the innermost around it; -1.
  bool counts_quality_ = true;
  std::vector<Phase> phases_;  // Of each range.
};

/// Sorts, and keeps the order of what `less` calls equal. (std::stable_sort of GCC 12 uses what
/// C++17 deprecates, which clang-tidy refuses.)
template <class Row, class Less>
void sort_stably(std::vector<Row>& rows, Less less) {
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t left, std::uint32_t right) {
    if (less(rows[left], rows[right])) return true;
    return !less(rows[right], rows[left]) && left < right;
  });
  std::vector<Row> sorted;
  sorted.reserve(rows.size());
  for (const std::uint32_t row : order) sorted.push_back(std::move(rows[row]));
  rows = std::move(sorted);
}

/// The number in a range's name that stands for one step: "ProfilerStep#12", "step 12",
/// "iteration_12"; -1 for a step without a number ("step"), -2 if the name is none.
std::int64_t step_number_of(std::string_view name);

}  // namespace steplens
