#include "harness/trace/trace_request.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

using testing::HasSubstr;

class TraceRequestTest : public testing::Test {
 protected:
  TraceRequestTest() { clear(); }
  ~TraceRequestTest() override { clear(); }

  static void clear() {
    for (const char* name :
         {"STEPLENS_TRACE_OUT", "STEPLENS_TRACE_KIND", "STEPLENS_TRACE_FIRST_STEP",
          "STEPLENS_TRACE_STEPS", "STEPLENS_TRACE_END", "STEPLENS_TRACE_INFO",
          "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
      ::unsetenv(name);
    }
  }
  static void set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  static std::string failure() {
    try {
      trace_request_from_environment();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(TraceRequestTest, IsAbsentUnlessAFileIsNamed) {
  EXPECT_FALSE(trace_request_from_environment().has_value());
  set({{"STEPLENS_TRACE_OUT", ""}, {"STEPLENS_TRACE_STEPS", "no number"}});
  EXPECT_FALSE(trace_request_from_environment().has_value());
}

TEST_F(TraceRequestTest, ComesBackFromTheEnvironmentAsItWas) {
  TraceRequest request{.path = "/data/run 1/trace.slt",
                       .kind = TraceKind::kGraphTrace,
                       .first_step = 30,
                       .num_steps = 7,
                       .is_ended_by_call = true};
  request.info = {{"arm", "b\"\n\u00e9"}, {"config", {{"seed", 1}}}};
  const std::map<std::string, std::string> variables =
      environment_for(request, "/opt/lib/libsteplens_inject.so");
  EXPECT_EQ(variables.at("CUDA_INJECTION64_PATH"), "/opt/lib/libsteplens_inject.so");
  EXPECT_EQ(variables.at("NVTX_INJECTION64_PATH"), "/opt/lib/libsteplens_inject.so");
  set(variables);
  const std::optional<TraceRequest> read = trace_request_from_environment();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->path, request.path);
  EXPECT_EQ(read->kind, request.kind);
  EXPECT_EQ(read->first_step, request.first_step);
  EXPECT_EQ(read->num_steps, request.num_steps);
  EXPECT_TRUE(read->is_ended_by_call);
  EXPECT_EQ(read->info, request.info);
}

TEST_F(TraceRequestTest, MeansTheWholeRunWithoutAFirstStep) {
  set(environment_for({.path = "trace.slt"}, "library.so"));
  EXPECT_FALSE(trace_request_from_environment()->first_step.has_value());
}

TEST_F(TraceRequestTest, HasDefaultsForAllButTheFile) {
  set({{"STEPLENS_TRACE_OUT", "trace.slt"}});
  const std::optional<TraceRequest> request = trace_request_from_environment();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->kind, TraceKind::kTrace);
  EXPECT_EQ(request->num_steps, 10);
  EXPECT_EQ(request->info, nlohmann::json::object());
}

TEST_F(TraceRequestTest, NamesTheVariableThatIsWrong) {
  const struct {
    const char* name;
    const char* value;
    const char* message;
  } cases[] = {
      {"STEPLENS_TRACE_KIND", "graphs",
       "STEPLENS_TRACE_KIND: \"graphs\" is not one of trace, graph-trace, counters, null"},
      {"STEPLENS_TRACE_FIRST_STEP", "-1",
       "STEPLENS_TRACE_FIRST_STEP: \"-1\" is no whole number of at least 0"},
      {"STEPLENS_TRACE_STEPS", "0", "STEPLENS_TRACE_STEPS: \"0\" is no whole number of at least 1"},
      {"STEPLENS_TRACE_STEPS", "3 steps", "\"3 steps\" is no whole number"},
      {"STEPLENS_TRACE_STEPS", "99999999999999999999", "is no whole number"},
      {"STEPLENS_TRACE_END", "step", "STEPLENS_TRACE_END: \"step\" is not \"call\""},
      {"STEPLENS_TRACE_INFO", "{", "STEPLENS_TRACE_INFO: not a JSON object"},
      {"STEPLENS_TRACE_INFO", "[1]", "STEPLENS_TRACE_INFO: not a JSON object"},
  };
  for (const auto& wrong : cases) {
    clear();
    set({{"STEPLENS_TRACE_OUT", "trace.slt"}, {wrong.name, wrong.value}});
    EXPECT_THAT(failure(), HasSubstr(wrong.message));
  }
}

TEST(TraceKind, GoesByItsName) {
  for (const TraceKind kind :
       {TraceKind::kTrace, TraceKind::kGraphTrace, TraceKind::kCounters, TraceKind::kNull}) {
    EXPECT_EQ(trace_kind_from_name(name_of(kind)), kind);
  }
  EXPECT_THROW(trace_kind_from_name(""), ConfigError);
}

}  // namespace
}  // namespace steplens
