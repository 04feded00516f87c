#include "harness/run_site.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "harness/error.h"
#include "harness/interrupt.h"

namespace steplens {
namespace {

std::string read_boot_id() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(stream, id);
  return id;
}

}  // namespace

bool RunSite::sleep_unless_stopped(double duration_s) const {
  constexpr double kSliceS = 0.1;
  const double end_s = now_s() + duration_s;
  while (stop_request() == StopRequest::kNone) {
    const double left_s = end_s - now_s();
    if (left_s <= 0) return true;
    sleep_s(std::min(kSliceS, left_s));
  }
  return false;
}

RunSite make_run_site(Machine& machine) {
  return {.machine = &machine,
          .run_process = run_process,
          .run_processes = run_processes,
          .start_waiting = &WaitingProcess::start,
          .stop_request = InterruptGuard::stop_request,
          .now_s =
              [] {
                const auto now = std::chrono::system_clock::now().time_since_epoch();
                return std::chrono::duration<double>(now).count();
              },
          .sleep_s =
              [](double duration_s) {
                std::this_thread::sleep_for(std::chrono::duration<double>(duration_s));
              },
          .boot_id = read_boot_id()};
}

std::string utc_text(double unix_s) {
  const auto total_ms = static_cast<std::int64_t>(std::floor(unix_s * 1000));
  const std::time_t seconds = total_ms / 1000;
  std::tm fields{};
  ::gmtime_r(&seconds, &fields);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", fields.tm_year + 1900,
                     fields.tm_mon + 1, fields.tm_mday, fields.tm_hour, fields.tm_min,
                     fields.tm_sec, total_ms % 1000);
}

double unix_time_of(const std::string& utc) {
  std::tm fields{};
  const char* rest = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &fields);
  double fraction_s = 0;
  if (rest != nullptr && *rest == '.') {
    char* end = nullptr;
    fraction_s = std::strtod(rest, &end);
    rest = end;
  }
  if (rest == nullptr || std::string_view(rest) != "Z") {
    throw ConfigError(fmt::format("created_utc={}: not of the form 2026-01-31T12:34:56Z", utc));
  }
  return static_cast<double>(::timegm(&fields)) + fraction_s;
}

}  // namespace steplens
