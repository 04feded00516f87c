#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "harness/trace/trace.h"
#include "harness/trace/trace_format.h"

/// Which field of which table is which column of a trace file, and how it becomes a 64-bit code.
/// Shared by writer and reader. Column ids stay: they are on disk.
namespace steplens::schema {

/// One field of a row.
template <class Row, class T>
struct Column {
  std::uint8_t id;
  std::string_view name;
  T Row::* member;
  TableId refers_to = TableId::kNone;  // The table that the value is a row of.
  std::uint8_t num_names = 0;          // Of an enum: its values are below.
};

template <class Row, class T>
constexpr Column<Row, T> column(std::uint8_t id, std::string_view name, T Row::* member,
                                TableId refers_to = TableId::kNone) {
  return {id, name, member, refers_to, 0};
}
template <class Row, class T>
constexpr Column<Row, T> enum_column(std::uint8_t id, std::string_view name, T Row::* member,
                                     T last) {
  return {id, name, member, TableId::kNone, static_cast<std::uint8_t>(static_cast<int>(last) + 1)};
}

/// Rows with start_ns and end_ns keep them as three columns: the first start, then for each row the
/// gap since the row before and the duration. Small numbers, unlike the times.
enum class Times : std::uint8_t {
  kNone,
  kSincePreviousEnd,    // Rows that follow one another.
  kSincePreviousStart,  // Rows that nest.
};
inline constexpr std::uint8_t kOriginId = 1;
inline constexpr std::uint8_t kGapId = 2;
inline constexpr std::uint8_t kDurationId = 3;

/// Keeps the order of signed numbers, so that a frame of reference around 0 stays narrow.
constexpr std::uint64_t code_of_signed(std::int64_t value) {
  return static_cast<std::uint64_t>(value) ^ (std::uint64_t{1} << 63);
}
constexpr std::int64_t signed_of_code(std::uint64_t code) {
  return static_cast<std::int64_t>(code ^ (std::uint64_t{1} << 63));
}

/// True where the value counts rows from 0 and "none" is -1 or kNoRow: its code is value + 1.
constexpr bool may_be_none(TableId refers_to) {
  return refers_to != TableId::kNone && refers_to != TableId::kString &&
         refers_to != TableId::kDevice;
}

namespace internal {
template <class T>
struct BitsOf {
  using Type = std::make_unsigned_t<T>;
};
template <class T>
  requires std::is_enum_v<T>
struct BitsOf<T> {
  using Type = std::underlying_type_t<T>;
};
template <>
struct BitsOf<double> {
  using Type = std::uint64_t;
};
}  // namespace internal

/// The unsigned type that holds any code of a T.
template <class T>
using Bits = typename internal::BitsOf<T>::Type;

template <class T>
constexpr std::uint64_t code_of(T value, bool is_row) {
  using B = Bits<T>;
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(value);
  } else {
    const auto bits = static_cast<B>(value);
    if (is_row) return static_cast<B>(bits + 1);
    constexpr B kSign = std::is_signed_v<T> ? B{1} << (std::numeric_limits<B>::digits - 1) : 0;
    return static_cast<B>(bits ^ kSign);
  }
}

template <class T>
constexpr T value_of(std::uint64_t code, bool is_row) {
  using B = Bits<T>;
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(code);
  } else {
    const auto bits = static_cast<B>(code);
    if (is_row) return static_cast<T>(static_cast<B>(bits - 1));
    constexpr B kSign = std::is_signed_v<T> ? B{1} << (std::numeric_limits<B>::digits - 1) : 0;
    return static_cast<T>(static_cast<B>(bits ^ kSign));
  }
}

/// Largest code that the field itself can hold.
template <class Row, class T>
constexpr std::uint64_t max_code(const Column<Row, T>& column) {
  return column.num_names > 0 ? column.num_names - 1U : std::numeric_limits<Bits<T>>::max();
}

template <class Row>
struct Schema;

template <>
struct Schema<GpuOp> {
  static constexpr TableId kTable = TableId::kGpuOp;
  static constexpr auto kRows = &Trace::gpu_ops;
  static constexpr Times kTimes = Times::kSincePreviousEnd;
  static constexpr std::tuple kColumns = {
      column(4, "bytes", &GpuOp::bytes),
      column(5, "graph_node_id", &GpuOp::graph_node_id),
      column(6, "name", &GpuOp::name, TableId::kString),
      column(7, "correlation_id", &GpuOp::correlation_id),
      column(8, "stream_id", &GpuOp::stream_id),
      column(9, "launch_shape", &GpuOp::launch_shape, TableId::kLaunchShape),
      column(10, "range", &GpuOp::range, TableId::kRange),
      column(11, "step_index", &GpuOp::step_index, TableId::kStep),
      column(12, "micro_step_index", &GpuOp::micro_step_index),
      enum_column(13, "kind", &GpuOp::kind, GpuOpKind::kOperator),
      enum_column(14, "copy_kind", &GpuOp::copy_kind, CopyKind::kOther),
      enum_column(15, "source_memory", &GpuOp::source_memory, MemoryKind::kArray),
      enum_column(16, "target_memory", &GpuOp::target_memory, MemoryKind::kArray),
      enum_column(17, "phase", &GpuOp::phase, Phase::kOther),
      enum_column(18, "attribution", &GpuOp::attribution, Attribution::kGraphNode),
      column(19, "device", &GpuOp::device, TableId::kDevice),
  };
};

template <>
struct Schema<LaunchShape> {
  static constexpr TableId kTable = TableId::kLaunchShape;
  static constexpr auto kRows = &Trace::launch_shapes;
  static constexpr Times kTimes = Times::kNone;
  static constexpr std::tuple kColumns = {
      column(1, "grid_x", &LaunchShape::grid_x),
      column(2, "grid_y", &LaunchShape::grid_y),
      column(3, "grid_z", &LaunchShape::grid_z),
      column(4, "block_x", &LaunchShape::block_x),
      column(5, "block_y", &LaunchShape::block_y),
      column(6, "block_z", &LaunchShape::block_z),
      column(7, "registers_per_thread", &LaunchShape::registers_per_thread),
      column(8, "static_shared_bytes", &LaunchShape::static_shared_bytes),
      column(9, "dynamic_shared_bytes", &LaunchShape::dynamic_shared_bytes),
  };
};

template <>
struct Schema<Api> {
  static constexpr TableId kTable = TableId::kApi;
  static constexpr auto kRows = &Trace::apis;
  static constexpr Times kTimes = Times::kSincePreviousEnd;
  static constexpr std::tuple kColumns = {
      column(4, "name", &Api::name, TableId::kString),
      column(5, "correlation_id", &Api::correlation_id),
      column(6, "thread", &Api::thread, TableId::kThread),
      column(7, "range_instance", &Api::range_instance, TableId::kRangeInstance),
      column(8, "return_value", &Api::return_value),
  };
};

template <>
struct Schema<Range> {
  static constexpr TableId kTable = TableId::kRange;
  static constexpr auto kRows = &Trace::ranges;
  static constexpr Times kTimes = Times::kNone;
  static constexpr std::tuple kColumns = {
      column(1, "name", &Range::name, TableId::kString),
      column(2, "domain", &Range::domain, TableId::kString),
      column(3, "parent", &Range::parent, TableId::kRange),
  };
};

template <>
struct Schema<RangeInstance> {
  static constexpr TableId kTable = TableId::kRangeInstance;
  static constexpr auto kRows = &Trace::range_instances;
  static constexpr Times kTimes = Times::kSincePreviousStart;
  static constexpr std::tuple kColumns = {
      column(4, "range", &RangeInstance::range, TableId::kRange),
      column(5, "thread", &RangeInstance::thread, TableId::kThread),
      column(6, "parent", &RangeInstance::parent, TableId::kRangeInstance),
  };
};

template <>
struct Schema<Sync> {
  static constexpr TableId kTable = TableId::kSync;
  static constexpr auto kRows = &Trace::syncs;
  static constexpr Times kTimes = Times::kSincePreviousEnd;
  static constexpr std::tuple kColumns = {
      column(4, "name", &Sync::name, TableId::kString),
      column(5, "correlation_id", &Sync::correlation_id),
      column(6, "stream_id", &Sync::stream_id),
  };
};

template <>
struct Schema<Alloc> {
  static constexpr TableId kTable = TableId::kAlloc;
  static constexpr auto kRows = &Trace::allocs;
  static constexpr Times kTimes = Times::kNone;
  static constexpr std::tuple kColumns = {
      column(1, "time_ns", &Alloc::time_ns),
      column(2, "address", &Alloc::address),
      column(3, "bytes", &Alloc::bytes),
      column(4, "range", &Alloc::range, TableId::kRange),
      column(5, "step_index", &Alloc::step_index, TableId::kStep),
      enum_column(6, "action", &Alloc::action, AllocAction::kOutOfMemory),
      enum_column(7, "owner", &Alloc::owner, MemoryOwner::kData),
      enum_column(8, "phase", &Alloc::phase, Phase::kOther),
      column(9, "device", &Alloc::device, TableId::kDevice),
  };
};

template <>
struct Schema<CounterTrack> {
  static constexpr TableId kTable = TableId::kCounterTrack;
  static constexpr auto kRows = &Trace::counter_tracks;
  static constexpr Times kTimes = Times::kNone;
  static constexpr std::tuple kColumns = {
      column(1, "name", &CounterTrack::name, TableId::kString),
      column(2, "unit", &CounterTrack::unit, TableId::kString),
      column(3, "absent_reason", &CounterTrack::absent_reason, TableId::kString),
  };
};

template <>
struct Schema<CounterSample> {
  static constexpr TableId kTable = TableId::kCounterSample;
  static constexpr auto kRows = &Trace::counter_samples;
  static constexpr Times kTimes = Times::kNone;
  static constexpr std::tuple kColumns = {
      column(1, "time_ns", &CounterSample::time_ns),
      column(2, "value", &CounterSample::value),
      column(3, "track", &CounterSample::track, TableId::kCounterTrack),
  };
};

template <>
struct Schema<Step> {
  static constexpr TableId kTable = TableId::kStep;
  static constexpr auto kRows = &Trace::steps;
  static constexpr Times kTimes = Times::kSincePreviousEnd;
  static constexpr std::tuple kColumns = {
      column(4, "first_step_number", &Step::first_step_number),
  };
};

template <>
struct Schema<ThreadInfo> {
  static constexpr TableId kTable = TableId::kThread;
  static constexpr auto kRows = &Trace::threads;
  static constexpr Times kTimes = Times::kNone;
  static constexpr std::tuple kColumns = {
      column(1, "tid", &ThreadInfo::tid),
      column(2, "name", &ThreadInfo::name, TableId::kString),
  };
};

template <>
struct Schema<DeviceInfo> {
  static constexpr TableId kTable = TableId::kDevice;
  static constexpr auto kRows = &Trace::devices;
  static constexpr Times kTimes = Times::kNone;
  static constexpr std::tuple kColumns = {
      column(1, "name", &DeviceInfo::name, TableId::kString),
      column(2, "uuid", &DeviceInfo::uuid, TableId::kString),
  };
};

/// Column ids of string and quality chunks, whose rows are text: lengths, all text in one, values.
inline constexpr std::uint8_t kTextLengthId = 1;
inline constexpr std::uint8_t kTextId = 2;
inline constexpr std::uint8_t kTextValueId = 3;

/// Column ids of the index.
inline constexpr std::uint8_t kIndexOffsetId = 1;
inline constexpr std::uint8_t kIndexTableId = 2;
inline constexpr std::uint8_t kIndexRowsId = 3;

/// No column of any table has a larger id.
inline constexpr std::uint8_t kMaxColumnId = 31;

/// Calls visit(Schema<Row>()) for each table of rows, tables that others refer to first: of a file
/// cut short, what is left refers to little that is gone.
template <class Visit>
void for_each_table(Visit visit) {
  visit(Schema<ThreadInfo>());
  visit(Schema<DeviceInfo>());
  visit(Schema<Step>());
  visit(Schema<LaunchShape>());
  visit(Schema<Range>());
  visit(Schema<RangeInstance>());
  visit(Schema<GpuOp>());
  visit(Schema<Api>());
  visit(Schema<Sync>());
  visit(Schema<Alloc>());
  visit(Schema<CounterTrack>());
  visit(Schema<CounterSample>());
}

/// Calls visit(column) for each column of a table but the times.
template <class Row, class Visit>
void for_each_column(Visit visit) {
  std::apply([&](const auto&... columns) { (visit(columns), ...); }, Schema<Row>::kColumns);
}

/// Rows of each table, by TableId.
using TableSizes = std::array<std::uint64_t, kNumTables>;

/// Largest code of a reference that exists. Device 0 need not be described.
inline std::uint64_t max_reference_code(TableId refers_to, const TableSizes& sizes) {
  const std::uint64_t size = sizes[static_cast<std::size_t>(refers_to)];
  if (refers_to == TableId::kString) return size - 1;
  if (refers_to == TableId::kDevice) return size > 0 ? size - 1 : 0;
  return size;
}

}  // namespace steplens::schema
