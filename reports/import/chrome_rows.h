#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/trace/trace.h"
#include "reports/import/chrome_event.h"
#include "reports/import/trace_assembler.h"

namespace steplens {

/// Turns the format's events into the rows of a trace: those of `write_chrome_json` by its header,
/// those of others by what profilers write.
class ChromeRows {
 public:
  /// `name`: what errors call the file.
  explicit ChromeRows(std::string name) : name_(std::move(name)) {}

  std::int64_t num_events() const { return num_events_; }
  void set_base_ns(std::int64_t base_ns);
  void add_device(std::int64_t id, std::string_view device_name);
  // Of a file of ours: what the format has no place for.
  void read_header(const std::string& text);
  void add(const ChromeEvent& event);
  Trace finish(bool is_truncated, std::int64_t num_mended, const std::string& file_name);

 private:
  struct Times {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };
  struct Begun {
    std::int64_t start_ns;
    std::string name;
  };
  struct Operator {
    std::uint32_t thread;
    Times times;
    StringId name;
  };

  static bool is_time(std::int64_t time_ns);
  // When the event was, or began.
  bool parse_time(const ChromeEvent& event, std::int64_t& time_ns) const;
  // Absent, and counted, where the event has no usable times.
  std::optional<Times> times_of(const ChromeEvent& event);
  std::uint32_t thread_of(const ChromeEvent& event);
  DeviceInfo& device(std::int64_t id);
  void add_complete(const ChromeEvent& event);
  void add_range(const ChromeEvent& event, std::string_view name, Times times);
  // Steps of ours are on a track of their own. Kineto's are annotations like others, but each has
  // its number in its name: as ranges they are all "step".
  bool add_step(const ChromeEvent& event, std::string_view name, Times times);
  void add_op(const ChromeEvent& event, GpuOpKind kind);
  StringId op_name(const ChromeEvent& event, GpuOpKind kind);
  void read_attribution(const ChromeEvent& event, GpuOp& op);
  void add_api(const ChromeEvent& event);
  void add_sync(const ChromeEvent& event);
  void begin(const ChromeEvent& event);
  void end(const ChromeEvent& event);
  void add_metadata(const ChromeEvent& event);
  std::uint32_t counter_track(std::string_view name, std::string_view unit);
  void add_counter(const ChromeEvent& event);
  // torch.profiler(profile_memory=True): what its caching allocators did.
  void add_instant(const ChromeEvent& event);
  // Kineto wrote 0 where CUPTI had no time (kineto #109): far before all others.
  void drop_zero_times();
  // Without a device the operators are what the time goes to: those that lie in no other.
  void take_operators();
  // A file of ours whose steps somebody took out.
  void refuse_unknown_steps();
  void start_at_first_event();

  std::string name_;
  TraceAssembler assembler_;
  bool header_ = false;
  bool has_device_ = false;
  std::int64_t offset_ns_ = 0;
  std::optional<std::int64_t> base_ns_;
  std::int64_t num_events_ = 0;
  std::string key_;
  std::unordered_map<std::int64_t, StringId> op_names_;
  std::unordered_map<std::string, std::vector<Begun>> begun_;
  std::unordered_map<std::string, std::string> thread_names_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> counter_tracks_;
  std::vector<Operator> operators_;
};

}  // namespace steplens
