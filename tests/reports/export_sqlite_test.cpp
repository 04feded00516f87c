#include <filesystem>
#include <string>
#include <vector>

#include "tests/reports/export_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "reports/export/nsight_schema.h"
#include "reports/export/sqlite.h"
#include "reports/sqlite_database.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ExportSqlite : public testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "trace.sqlite"; }

  // Rows as "a|b|c", as the sqlite3 program prints them.
  std::vector<std::string> rows_of(std::string_view sql, int num_columns) {
    SqliteDatabase database(path(), SqliteDatabase::Mode::kRead, "test");
    SqliteStatement statement = database.prepare(sql);
    std::vector<std::string> rows;
    while (statement.next()) {
      std::string& row = rows.emplace_back(statement.text(0));
      for (int column = 1; column < num_columns; ++column) {
        row += "|" + std::string(statement.text(column));
      }
    }
    return rows;
  }

  TemporaryFolder folder_;
};

// The summary that everybody writes first: time by kernel name.
constexpr std::string_view kKernelSum = R"(
  SELECT s.value AS name, COUNT(*) AS instances, SUM(k.end - k.start) AS total_ns,
         MAX(k.end - k.start) AS max_ns
  FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON k.demangledName = s.id
  GROUP BY s.value ORDER BY total_ns DESC)";

// Which range launched a kernel: innermost NVTX range around the call, on the call's thread.
constexpr std::string_view kProjection = R"(
  SELECT ks.value, (
    SELECT COALESCE(n.text, ns.value) FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS ns ON n.textId = ns.id
    WHERE n.eventType = 59 AND n.globalTid = r.globalTid AND n.start <= r.start AND n.end >= r.end
    ORDER BY n.start DESC LIMIT 1) AS range
  FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
  JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON k.correlationId = r.correlationId
    AND (k.globalPid / 0x1000000 % 0x1000000) = (r.globalTid / 0x1000000 % 0x1000000)
  JOIN StringIds AS ks ON k.shortName = ks.id
  ORDER BY k.start)";

TEST_F(ExportSqlite, SumsKernelsByNameAsAtNsight) {
  TraceBuilder builder;
  const std::string_view add = "_ZN2at6native10add_kernelIfEEvPT_i";
  builder.kernel(add, 0, 100, 0);
  builder.kernel("gemm", 100, 400, 0);
  builder.kernel(add, 400, 450, 0);
  builder.copy(CopyKind::kHostToDevice, 0, 9'999, 0);  // No kernel.
  write_sqlite(path(), builder.trace());
  EXPECT_THAT(
      rows_of(kKernelSum, 4),
      ElementsAre("gemm|1|300|300", "void at::native::add_kernel<float>(float*, int)|2|150|100"));
  EXPECT_THAT(rows_of("SELECT s.value, m.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s "
                      "ON s.id = k.shortName JOIN StringIds m ON m.id = k.mangledName LIMIT 1",
                      2),
              ElementsAre("add_kernel|" + std::string(add)));
}

TEST_F(ExportSqlite, ProjectsRangesOntoKernelsAsAtNsight) {
  write_sqlite(path(), two_launches());
  EXPECT_THAT(rows_of(kProjection, 2), ElementsAre("mm_kernel|forward", "add_kernel|step"));
}

TEST_F(ExportSqlite, EncodesProcessAndThreadAsNsight) {
  write_sqlite(path(), two_launches());
  EXPECT_THAT(rows_of("SELECT DISTINCT globalTid / 0x1000000 % 0x1000000, globalTid % 0x1000000 "
                      "FROM CUPTI_ACTIVITY_KIND_RUNTIME",
                      2),
              ElementsAre("4711|100"));
  EXPECT_THAT(rows_of("SELECT s.value FROM ThreadNames t JOIN StringIds s ON s.id = t.nameId WHERE "
                      "t.globalTid IN (SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME)",
                      1),
              ElementsAre("main"));
}

TEST_F(ExportSqlite, HasCopiesWaitsTargetsAndEnums) {
  write_sqlite(path(), two_launches());
  EXPECT_THAT(rows_of("SELECT o.label, s.label, d.label, m.bytes, m.end - m.start "
                      "FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN ENUM_CUDA_MEMCPY_OPER o ON o.id = "
                      "m.copyKind JOIN ENUM_CUDA_MEM_KIND s ON s.id = m.srcKind "
                      "JOIN ENUM_CUDA_MEM_KIND d ON d.id = m.dstKind",
                      5),
              ElementsAre("Host-to-Device|Pinned|Device|4096|100"));
  EXPECT_THAT(rows_of("SELECT e.label, y.streamId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION y JOIN "
                      "ENUM_CUPTI_SYNC_TYPE e ON e.id = y.syncType",
                      2),
              ElementsAre("Stream sync|7"));
  EXPECT_THAT(rows_of("SELECT id, name FROM TARGET_INFO_GPU", 2), ElementsAre("0|NVIDIA H200"));
  EXPECT_THAT(rows_of("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", 1),
              ElementsAre("1700000000000000000"));
  EXPECT_THAT(rows_of("SELECT gridX, blockX, registersPerThread, staticSharedMemory, "
                      "dynamicSharedMemory, graphNodeId FROM CUPTI_ACTIVITY_KIND_KERNEL",
                      6),
              ElementsAre("4|128|32|1024|2048|", "0|0|0|0|0|77"));
}

TEST_F(ExportSqlite, NamesDomainsAsEventsOfTheirOwn) {
  TraceBuilder builder;
  builder.open("ncclAllReduce", 10, 20, "main", "NCCL");
  write_sqlite(path(), builder.trace());
  EXPECT_THAT(rows_of("SELECT d.text, n.text FROM NVTX_EVENTS n JOIN NVTX_EVENTS d ON d.eventType "
                      "= 75 AND d.domainId = n.domainId WHERE n.eventType = 59",
                      2),
              ElementsAre("NCCL|ncclAllReduce"));
}

TEST_F(ExportSqlite, WritesSegmentsAndCounters) {
  TraceBuilder builder;
  Trace& trace = builder.trace();
  trace.allocs = {
      {.time_ns = 5, .address = 64, .bytes = 2048, .action = AllocAction::kSegmentAlloc},
      {.time_ns = 6, .bytes = 512, .action = AllocAction::kAlloc}};
  trace.counter_tracks.push_back({.name = builder.text("power"), .unit = builder.text("W")});
  trace.counter_samples.push_back({.time_ns = 7, .value = 431.25, .track = 0});
  write_sqlite(path(), trace);
  EXPECT_THAT(rows_of("SELECT start, address, bytes, memoryOperationType FROM "
                      "CUDA_GPU_MEMORY_USAGE_EVENTS",
                      4),
              ElementsAre("5|64|2048|0"));
  EXPECT_THAT(rows_of("SELECT metricName, timestamp, value FROM GPU_METRICS JOIN "
                      "TARGET_INFO_GPU_METRICS USING (typeId, metricId)",
                      3),
              ElementsAre("power [W]|7|431.25"));
}

TEST_F(ExportSqlite, TextIsValidUtf8) {
  TraceBuilder builder;
  builder.kernel("bad\xFF", 0, 1, 0);
  write_sqlite(path(), builder.trace());
  EXPECT_THAT(rows_of(kKernelSum, 1), ElementsAre("bad\xEF\xBF\xBD"));
}

TEST_F(ExportSqlite, AnEmptyTraceHasAllTables) {
  write_sqlite(path(), Trace());
  EXPECT_THAT(rows_of(kKernelSum, 1), IsEmpty());
  EXPECT_THAT(rows_of(kProjection, 1), IsEmpty());
}

TEST_F(ExportSqlite, ReplacesAFileWhole) {
  write_sqlite(path(), two_launches());
  write_sqlite(path(), Trace());
  EXPECT_THAT(rows_of(kKernelSum, 1), IsEmpty());
  EXPECT_THROW(write_sqlite(folder_.path() / "none" / "trace.sqlite", Trace()), ConfigError);
  EXPECT_THAT(std::vector(fs::directory_iterator(folder_.path()), fs::directory_iterator()),
              testing::SizeIs(1));
}

TEST(NsightSchema, KindsComeBack) {
  for (const CopyKind kind :
       {CopyKind::kHostToDevice, CopyKind::kDeviceToHost, CopyKind::kDeviceToDevice,
        CopyKind::kPeerToPeer, CopyKind::kHostToHost, CopyKind::kOther}) {
    EXPECT_EQ(nsight::copy_kind_of(nsight::id_of(kind)), kind);
  }
  for (const MemoryKind kind : {MemoryKind::kUnknown, MemoryKind::kPageable, MemoryKind::kPinned,
                                MemoryKind::kDevice, MemoryKind::kManaged, MemoryKind::kArray}) {
    EXPECT_EQ(nsight::memory_kind_of(nsight::id_of(kind)), kind);
  }
  for (const std::string_view name : {"event", "stream wait event", "stream", "context"}) {
    EXPECT_EQ(nsight::sync_name_of(nsight::sync_type_of(name)), name);
  }
}

}  // namespace
}  // namespace steplens
