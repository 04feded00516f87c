#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/harness/synthetic_trace.h"
#include "tests/reports/export_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "reports/export/op_names.h"
#include "reports/export/sqlite.h"
#include "reports/import/sqlite_import.h"
#include "reports/sqlite_database.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class ImportSqlite : public testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "report.sqlite"; }

  Trace import_sql(const std::string& sql) {
    fs::remove(path());
    SqliteDatabase database(path(), SqliteDatabase::Mode::kCreate, "test");
    database.run(sql);
    database.close();
    return import_sqlite(path());
  }

  Trace round_trip(const Trace& trace) {
    write_sqlite(path(), trace);
    return import_sqlite(path());
  }

  TemporaryFolder folder_;
};

// An older Nsight Systems: fewer columns, names only in StringIds, two processes of one thread each
// whose correlation ids are the same.
constexpr const char* kNsight = R"(
  CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
  INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000'), (3, 'forward');
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT,
    streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT);
  INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500, 900, 0, 1, 7, 5, 0x1000007000000, 1, 1),
    (600, 700, 1, 1, 7, 5, 0x1000008000000, 1, 1), (0, 0, 0, 1, 7, 6, 0x1000007000000, 1, 1);
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT,
    nameId INT, returnValue INT);
  INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (110, 120, 0x1000007000011, 5, 2, 0),
    (130, 140, 0x1000008000022, 5, 2, 0);
  CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT,
    domainId INT);
  INSERT INTO NVTX_EVENTS VALUES (100, 200, 59, 'step 41', 0x1000007000011, NULL, 0),
    (105, 150, 59, NULL, 0x1000007000011, 3, 0), (300, NULL, 59, 'open', 0x1000007000011, NULL, 0),
    (310, 310, 34, 'a mark', 0x1000007000011, NULL, 0), (0, NULL, 75, 'NCCL', 0x1000008000022, NULL, 4),
    (125, 190, 59, 'ncclAllReduce', 0x1000008000022, NULL, 4);
  CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, uuid TEXT);
  INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 'GPU-a'), (1, 'NVIDIA H200', 'GPU-b');
  CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT);
  INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
)";

TEST_F(ImportSqlite, ReadsNsight) {
  const Trace trace = import_sql(kNsight);
  EXPECT_EQ(trace.info["start_unix_ns"], 1'700'000'000'000'000'000);
  ASSERT_THAT(trace.gpu_ops, SizeIs(2));
  EXPECT_EQ(trace.text(trace.gpu_ops[0].name), "gemm");
  EXPECT_EQ(trace.gpu_ops[0].end_ns, 900);
  EXPECT_EQ(trace.gpu_ops[0].step_index, 0);
  EXPECT_EQ(trace.gpu_ops[0].phase, Phase::kForward);
  const std::vector<std::string> paths = range_paths(trace);
  EXPECT_EQ(paths[trace.gpu_ops[0].range], "step 41/forward");
  EXPECT_EQ(paths[trace.gpu_ops[1].range], "ncclAllReduce");
  EXPECT_EQ(trace.text(trace.ranges[trace.gpu_ops[1].range].domain), "NCCL");
  EXPECT_EQ(trace.gpu_ops[1].device, 1);
  EXPECT_NE(trace.gpu_ops[0].correlation_id, trace.gpu_ops[1].correlation_id);
  EXPECT_THAT(trace.steps, ElementsAre(Step{100, 200, 41}));
  EXPECT_THAT(trace.range_instances, SizeIs(3));
  ASSERT_THAT(trace.threads, SizeIs(2));
  EXPECT_EQ(trace.threads[0].tid, 0x11U);
  EXPECT_EQ(trace.text(trace.devices.at(1).uuid), "GPU-b");
  EXPECT_EQ(trace.quality.at("zero_timestamps"), 1);
  EXPECT_EQ(trace.quality.at("open_ranges"), 1);
}

TEST_F(ImportSqlite, RefusesWhatIsNone) {
  EXPECT_THROW(import_sql("CREATE TABLE other (a INT)"), ConfigError);
  std::ofstream(path(), std::ios::trunc) << "no database at all, but long enough to be looked at";
  EXPECT_THROW(import_sqlite(path()), ConfigError);
  EXPECT_THROW(import_sqlite(folder_.path() / "none.sqlite"), ConfigError);
}

TEST_F(ImportSqlite, WhatWasExportedComesBack) {
  const Trace trace = SyntheticTrace::make(2);
  const Trace copy = round_trip(trace);
  ASSERT_EQ(copy.gpu_ops.size(), trace.gpu_ops.size());
  // Nsight has a table per kind, so the order of kinds is lost.
  const auto sorted = [](const Trace& source) {
    std::vector<std::string> rows;
    for (const GpuOp& op : source.gpu_ops) {
      const LaunchShape shape =
          op.launch_shape == kNoRow ? LaunchShape() : source.launch_shapes[op.launch_shape];
      rows.push_back(fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}", op.start_ns, op.end_ns,
                                 op.bytes, source.text(op.name), op.correlation_id, op.stream_id,
                                 name_of(op.kind), name_of(op.copy_kind), name_of(op.source_memory),
                                 name_of(op.target_memory), shape.grid_x,
                                 shape.registers_per_thread, op.step_index));
    }
    std::ranges::sort(rows);
    return rows;
  };
  EXPECT_EQ(sorted(copy), sorted(trace));
  ASSERT_EQ(copy.apis.size(), trace.apis.size());
  for (std::size_t i = 0; i < trace.apis.size(); ++i) {
    EXPECT_EQ(copy.apis[i].start_ns, trace.apis[i].start_ns);
    EXPECT_EQ(copy.apis[i].correlation_id, trace.apis[i].correlation_id);
    EXPECT_EQ(copy.apis[i].thread, trace.apis[i].thread);
  }
  EXPECT_EQ(copy.steps, trace.steps);
  EXPECT_EQ(copy.syncs.size(), trace.syncs.size());
  EXPECT_EQ(copy.counter_samples, trace.counter_samples);
  EXPECT_EQ(copy.range_instances.size(), trace.range_instances.size());
  EXPECT_EQ(copy.info, trace.info);
  EXPECT_EQ(copy.quality, trace.quality);
  EXPECT_EQ(copy.text(copy.devices.at(0).uuid), "GPU-0");
  EXPECT_EQ(copy.text(copy.threads.at(1).name), "autograd");
}

TEST_F(ImportSqlite, OperatorsOfACpuComeBack) {
  TraceBuilder builder;
  builder.open("forward", 0, 100);
  builder.cpu_operator("aten::mm", 10, 20, 0);
  const Trace copy = round_trip(builder.trace());
  ASSERT_THAT(copy.gpu_ops, SizeIs(1));
  EXPECT_EQ(copy.gpu_ops[0].kind, GpuOpKind::kOperator);
  EXPECT_EQ(copy.gpu_ops[0].stream_id, 0U);
  EXPECT_EQ(copy.text(copy.gpu_ops[0].name), "aten::mm");
  EXPECT_EQ(copy.gpu_ops[0].phase, Phase::kForward);
  EXPECT_THAT(copy.range_instances, SizeIs(1));
}

}  // namespace
}  // namespace steplens
