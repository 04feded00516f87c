// libsteplens_inject.so: loaded by the CUDA driver (CUDA_INJECTION64_PATH) and by NVTX
// (NVTX_INJECTION64_PATH) into any program, it records what TraceRequest asks for.

#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <unistd.h>

#include "profilers/cupti/cupti_api.h"
#include "profilers/cupti/pm_sampling_api.h"
#include "profilers/injection/nvtx_listener.h"
#include "profilers/injection/trace_session.h"

#define SL_EXPORT extern "C" __attribute__((visibility("default")))

namespace steplens {
namespace {

// A process that the traced one starts inherits its environment, but the trace is not its.
constexpr const char* kOwner = "STEPLENS_TRACE_PROCESS";

std::atomic<bool> is_forked = false;

void finish_at_exit();

// Never destroyed: NVTX and CUPTI may call until the process is gone. Null if nothing is asked for
// or this is a copy of the traced process, which has neither its threads nor a right to its file.
TraceSession* session() {
  if (is_forked) return nullptr;
  static TraceSession* instance = []() -> TraceSession* {
    try {
      const std::string pid = std::to_string(::getpid());
      const char* owner = std::getenv(kOwner);
      if (owner != nullptr && pid != owner) return nullptr;
      std::optional<TraceRequest> request = trace_request_from_environment();
      if (!request) return nullptr;
      ::setenv(kOwner, pid.c_str(), 1);
      auto made = std::make_unique<TraceSession>(std::move(*request));
      ::pthread_atfork(nullptr, nullptr, [] {
        is_forked = true;
        detach_nvtx();
      });
      std::atexit(finish_at_exit);
      return made.release();
    } catch (const std::exception& error) {
      fmt::print(stderr, "steplens: not traced: {}\n", error.what());
      return nullptr;
    }
  }();
  return instance;
}

void finish_at_exit() {
  TraceSession* session_or_null = session();
  if (session_or_null == nullptr) return;
  const std::string failure = session_or_null->finish();
  if (!failure.empty()) fmt::print(stderr, "steplens: {}\n", failure);
}

}  // namespace
}  // namespace steplens

// NOLINTBEGIN(readability-identifier-naming): names that the driver and NVTX look for.
/// Called by the CUDA driver when it initialises.
SL_EXPORT int InitializeInjection() {
  using namespace steplens;
  if (TraceSession* session_or_null = session()) {
    std::string why_not;
    const CuptiApi* cupti = load_cupti(why_not);
    session_or_null->start_cuda(cupti, why_not);
    if (session_or_null->wants_counters()) {
      const PmSamplingApi* pm_sampling = load_pm_sampling(why_not);
      session_or_null->start_counters(pm_sampling, why_not);
    }
  }
  return 1;
}

/// Called by each module's NVTX at its first call.
SL_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  using namespace steplens;
  TraceSession* session_or_null = session();
  return session_or_null == nullptr ? 0 : attach_nvtx(get_export_table, session_or_null->ranges());
}

// NOLINTEND(readability-identifier-naming)

/// For a program that knows that it is traced: ends the window and writes the file now. Returns
/// null, or why there is no file; the text stays valid.
SL_EXPORT const char* steplens_inject_finish() {
  static std::string failure;
  steplens::TraceSession* session_or_null = steplens::session();
  if (session_or_null == nullptr) return "no trace was asked for";
  failure = session_or_null->finish();
  return failure.empty() ? nullptr : failure.c_str();
}
