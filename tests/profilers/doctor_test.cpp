#include "profilers/doctor.h"

#include <map>
#include <set>

#include "tests/profilers/temporary_folder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace steplens {
namespace {

using testing::HasSubstr;
using Status = DoctorCheck::Status;

/// A machine that says what the test wants.
class FakeMachine final : public Machine {
 public:
  std::vector<GpuInfo> gpus() override { return gpu_list; }
  std::string why_no_gpu() override {
    return gpu_list.empty() ? "libnvidia-ml.so.1 not found: no NVIDIA driver" : "";
  }
  std::string cpu_model() override { return "Some CPU"; }
  std::optional<double> temperature_celsius(const std::string&) override { return std::nullopt; }
  std::optional<double> headroom_celsius(const std::string&) override { return std::nullopt; }
  std::vector<ForeignProcess> foreign_processes(const std::string&) override { return foreign; }
  double load_average() override { return load; }
  nlohmann::json environment(const std::string&) override {
    return {{"host", nlohmann::json::object()}, {"gpu", gpu}, {"num_unreadable_gpus", num_lost}};
  }

  void add_h200() {
    gpu_list.push_back(
        {.uuid = "GPU-0", .name = "NVIDIA H200", .memory_bytes = std::int64_t{140} << 30});
    gpu = {{"driver_version", "580.159.04"},     {"cuda_driver_version", "13.0"},
           {"application_sm_clock_mhz", 1980.0}, {"max_sm_clock_mhz", 1980.0},
           {"is_persistence_enabled", true},     {"is_mig_enabled", false}};
  }

  std::vector<GpuInfo> gpu_list;
  std::vector<ForeignProcess> foreign;
  nlohmann::json gpu = nullptr;
  double load = 0;
  int num_lost = 0;
};

/// Options under which every check is ok, for a test to spoil one thing.
class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    machine_.add_h200();
    folder_.write("site/torch/version.py",
                  "from typing import Optional\n\n"
                  "__all__ = ['__version__', 'debug', 'cuda']\n"
                  "__version__ = '2.11.0+cu130'\ndebug = False\n"
                  "cuda: Optional[str] = '13.0'\n");
    folder_.write("site/torch/lib/libtorch_cpu.so", "");
    folder_.write("site/nvidia/nccl/lib/libnccl.so.2", "");
    folder_.write("site/nvidia/cu13/lib/libcupti.so.13", "");
    folder_.write("site/nvidia/cu13/lib/libnvperf_host.so", "");
    folder_.write("site/nvidia/cu13/lib/libnvperf_target.so", "");
    write_program("bin/steplens-worker");
    write_program("cuda/bin/nvcc");
    folder_.write("cuda/include/cuda_runtime_api.h", "/* x */\n#define CUDART_VERSION  13000\n");
    folder_.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n");
    folder_.write("proc/self/status", "CapEff:\t0000000000000000\n");
    folder_.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    variables_["DISPLAY"] = ":0";
    options_.site_packages = folder_.path() / "site";
    options_.worker = folder_.path() / "bin/steplens-worker";
    options_.output_folder = folder_.path() / "runs/not/yet/there";
    options_.machine = &machine_;
    options_.host = Host(folder_.path() / "proc", folder_.path() / "sys");
    options_.cuda_folder = folder_.path() / "cuda";
    options_.environment_variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
    options_.why_not_loadable = [this](const std::string& library) {
      const auto found = why_not_loadable_.find(std::filesystem::path(library).filename());
      return found == why_not_loadable_.end() ? "" : found->second;
    };
  }

  void write_program(const std::filesystem::path& name) {
    std::filesystem::permissions(folder_.write(name, "#!/bin/sh\n"),
                                 std::filesystem::perms::owner_all);
  }

  DoctorCheck check(const std::string& name) {
    for (const DoctorCheck& each : run_doctor(options_)) {
      if (each.name == name) return each;
    }
    ADD_FAILURE() << "no check named " << name;
    return {};
  }

  FolderOfFiles folder_;
  FakeMachine machine_;
  std::map<std::string, std::string> variables_;
  std::map<std::string, std::string> why_not_loadable_;
  DoctorOptions options_;
};

TEST_F(DoctorTest, FindsNothingWrongWithAGoodMachine) {
  for (const DoctorCheck& each : run_doctor(options_)) {
    if (each.name == "disk space") continue;  // The real disk may be full.
    EXPECT_EQ(each.status, Status::kOk) << each.name << ": " << each.finding;
    EXPECT_EQ(each.advice, "") << each.name;
    EXPECT_NE(each.finding, "") << each.name;
  }
}

TEST_F(DoctorTest, GivesAdviceForEverythingThatIsMissing) {
  FakeMachine bare;
  const FolderOfFiles empty;
  DoctorOptions options;
  options.machine = &bare;
  options.host = Host(empty.path(), empty.path());
  options.cuda_folder = empty.path();
  options.output_folder = empty.path();
  options.environment_variable = [](const std::string&) { return std::nullopt; };
  options.why_not_loadable = [](const std::string&) { return "no such library"; };
  const std::vector<DoctorCheck> checks = run_doctor(options);
  std::set<std::string> missing;
  std::set<std::string> names;
  for (const DoctorCheck& each : checks) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name << " twice";
    EXPECT_EQ(each.advice.empty(), each.status == Status::kOk) << each.name;
    if (each.status == Status::kMissing) missing.insert(each.name);
  }
  EXPECT_THAT(missing,
              testing::ElementsAre("CUPTI", "GPU", "LibTorch", "NCCL", "counter permission",
                                   "display", "driver", "nvcc", "worker"));
}

TEST_F(DoctorTest, RunsOnThisMachine) {
  const std::vector<DoctorCheck> checks = run_doctor({});
  EXPECT_EQ(checks.size(), 12u);
  EXPECT_THAT(format_doctor(checks), HasSubstr("disk space"));
}

TEST_F(DoctorTest, NamesDriverAndCudaVersion) {
  EXPECT_EQ(check("driver").finding, "580.159.04 (CUDA 13.0)");
  machine_.gpu["driver_version"] = "550.54.15";
  machine_.gpu["cuda_driver_version"] = "12.4";
  EXPECT_EQ(check("driver").status, Status::kWarning);
  EXPECT_THAT(check("driver").advice, HasSubstr("driver 580"));
  machine_.gpu["driver_version"] = nullptr;
  EXPECT_EQ(check("driver").status, Status::kWarning);
}

TEST_F(DoctorTest, SaysWhyThereIsNoDriver) {
  machine_.gpu_list.clear();
  EXPECT_EQ(check("driver").status, Status::kMissing);
  EXPECT_EQ(check("driver").finding, "libnvidia-ml.so.1 not found: no NVIDIA driver");
  EXPECT_EQ(check("GPU").status, Status::kMissing);
}

TEST_F(DoctorTest, CountsGpusOfAKind) {
  machine_.add_h200();
  EXPECT_EQ(check("GPU").finding, "2 x NVIDIA H200, 140.0 GiB");
  machine_.num_lost = 1;
  EXPECT_EQ(check("GPU").status, Status::kWarning);
  EXPECT_THAT(check("GPU").finding, HasSubstr("1 more do not answer"));
}

TEST_F(DoctorTest, WarnsOfMig) {
  machine_.gpu["is_mig_enabled"] = true;
  EXPECT_EQ(check("GPU").status, Status::kWarning);
  EXPECT_THAT(check("GPU").advice, HasSubstr("nvidia-smi -mig 0"));
}

TEST_F(DoctorTest, ReadsTheVersionOfLibTorch) {
  EXPECT_THAT(check("LibTorch").finding, testing::StartsWith("2.11.0+cu130 in "));
  folder_.write("site/torch/version.py", "__version__ = '2.9.1+cu130'\ncuda = '13.0'\n");
  EXPECT_EQ(check("LibTorch").status, Status::kWarning);
  EXPECT_THAT(check("LibTorch").advice, HasSubstr("torch 2.11.0"));
}

TEST_F(DoctorTest, WarnsOfALibTorchForAnotherCuda) {
  folder_.write("site/torch/version.py",
                "__version__ = '2.11.0+cu126'\ncuda: Optional[str] = '12.6'\n");
  EXPECT_EQ(check("LibTorch").status, Status::kWarning);
  EXPECT_THAT(check("LibTorch").finding, HasSubstr("for CUDA 12.6"));
  folder_.write("site/torch/version.py",
                "__version__ = '2.11.0+cpu'\ncuda: Optional[str] = None\n");
  EXPECT_EQ(check("LibTorch").status, Status::kWarning);
  EXPECT_THAT(check("LibTorch").finding, HasSubstr("without CUDA"));
}

TEST_F(DoctorTest, DoesNotTakeAHalfInstallationForLibTorch) {
  std::filesystem::remove(folder_.path() / "site/torch/lib/libtorch_cpu.so");
  EXPECT_EQ(check("LibTorch").status, Status::kMissing);
}

TEST_F(DoctorTest, ShowsWhyALibraryDoesNotLoad) {
  why_not_loadable_["libnccl.so.2"] = "libcudart.so.13: cannot open shared object file";
  EXPECT_EQ(check("NCCL").status, Status::kWarning);
  EXPECT_THAT(check("NCCL").finding, HasSubstr("libcudart.so.13"));
  std::filesystem::remove(folder_.path() / "site/nvidia/cu13/lib/libcupti.so.13");
  EXPECT_EQ(check("CUPTI").status, Status::kMissing);
}

TEST_F(DoctorTest, WantsTheLibrariesOfCountersBesideCupti) {
  EXPECT_EQ(check("CUPTI").status, Status::kOk);
  why_not_loadable_["libnvperf_host.so"] = "wrong ELF class";
  EXPECT_EQ(check("CUPTI").status, Status::kWarning);
  EXPECT_THAT(check("CUPTI").finding, HasSubstr("without libnvperf_host.so: wrong ELF class"));
  why_not_loadable_.clear();
  std::filesystem::remove(folder_.path() / "site/nvidia/cu13/lib/libnvperf_target.so");
  EXPECT_EQ(check("CUPTI").status, Status::kWarning);
  EXPECT_THAT(check("CUPTI").finding, HasSubstr("libnvperf_target.so: it is not there"));
}

TEST_F(DoctorTest, KnowsWhoMayReadCounters) {
  folder_.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n");
  EXPECT_EQ(check("counter permission").status, Status::kWarning);
  EXPECT_THAT(check("counter permission").advice,
              HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
  folder_.write("proc/self/status", "CapEff:\t0000000000200000\n");  // CAP_SYS_ADMIN
  EXPECT_EQ(check("counter permission").status, Status::kOk);
  folder_.write("proc/self/status", "CapEff:\t0000004000000000\n");  // CAP_PERFMON
  EXPECT_EQ(check("counter permission").status, Status::kOk);
  folder_.write("proc/self/status", "CapEff:\t0000002000000000\n");  // CAP_AUDIT_READ
  EXPECT_EQ(check("counter permission").status, Status::kWarning);
}

TEST_F(DoctorTest, WarnsOfLoweredClocks) {
  machine_.gpu["application_sm_clock_mhz"] = 1500.0;
  EXPECT_EQ(check("clocks").status, Status::kWarning);
  EXPECT_THAT(check("clocks").finding, HasSubstr("application clock 1500 of 1980 MHz"));
  EXPECT_THAT(check("clocks").advice, HasSubstr("nvidia-smi -rac"));
}

TEST_F(DoctorTest, WarnsOfThePowersaveGovernorAndOfPersistenceOff) {
  folder_.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  machine_.gpu["is_persistence_enabled"] = false;
  const DoctorCheck clocks = check("clocks");
  EXPECT_EQ(clocks.status, Status::kWarning);
  EXPECT_THAT(clocks.advice, HasSubstr("cpupower frequency-set -g performance"));
  EXPECT_THAT(clocks.advice, HasSubstr("nvidia-smi -pm 1"));
}

TEST_F(DoctorTest, DoesNotComplainOfClocksThatAreNotShown) {
  std::filesystem::remove_all(folder_.path() / "sys");
  machine_.gpu["application_sm_clock_mhz"] = nullptr;
  machine_.gpu["is_persistence_enabled"] = nullptr;
  EXPECT_EQ(check("clocks").status, Status::kOk);
  EXPECT_EQ(check("clocks").finding,
            "NVIDIA H200: up to 1980 MHz, no application clock; CPU governor not shown");
}

TEST_F(DoctorTest, NamesForeignProcesses) {
  machine_.foreign = {{.pid = 77, .memory_bytes = std::int64_t{3} << 29}, {.pid = 0}};
  const DoctorCheck load = check("foreign load");
  EXPECT_EQ(load.status, Status::kWarning);
  EXPECT_THAT(load.finding, HasSubstr("process 77 on NVIDIA H200 holding 1.5 GiB; "
                                      "an unseen process on NVIDIA H200; load average"));
  EXPECT_THAT(load.advice, HasSubstr("--allow-foreign-load"));
}

TEST_F(DoctorTest, WarnsOfABusyHost) {
  machine_.load = 0.25 * Host::num_cpus();
  EXPECT_EQ(check("foreign load").status, Status::kOk);
  machine_.load += 0.01;
  EXPECT_EQ(check("foreign load").status, Status::kWarning);
}

TEST_F(DoctorTest, TellsAProgramFromAFile) {
  folder_.write("bin/plain", "not executable");
  options_.worker = folder_.path() / "bin/plain";
  EXPECT_EQ(check("worker").status, Status::kMissing);
  options_.worker = folder_.path() / "bin";
  EXPECT_EQ(check("worker").status, Status::kMissing);
}

TEST_F(DoctorTest, LooksForNvccAsTheBuildDoesAndThenOnThePath) {
  EXPECT_THAT(check("nvcc").finding, HasSubstr("CUDA 13.0"));
  std::filesystem::remove_all(folder_.path() / "cuda");
  EXPECT_EQ(check("nvcc").status, Status::kMissing);
  write_program("other/bin/nvcc");
  folder_.write("other/include/cuda_runtime_api.h", "#define CUDART_VERSION 12060\n");
  variables_["PATH"] = "/nowhere::" + (folder_.path() / "other/bin").string();
  EXPECT_EQ(check("nvcc").status, Status::kWarning);
  EXPECT_THAT(check("nvcc").finding, HasSubstr("CUDA 12.6"));
  write_program("site/nvidia/cu13/bin/nvcc");
  folder_.write("site/nvidia/cu13/include/cuda_runtime_api.h", "#define CUDART_VERSION 13000\n");
  EXPECT_THAT(check("nvcc").finding, HasSubstr("nvidia/cu13/bin/nvcc"));
  write_program("given/nvcc");
  variables_["CUDACXX"] = (folder_.path() / "given/nvcc").string();
  EXPECT_THAT(check("nvcc").finding, HasSubstr("given/nvcc, version not shown"));
}

TEST_F(DoctorTest, TellsADisplayFromEglFromNothing) {
  EXPECT_EQ(check("display").finding, "DISPLAY=:0");
  variables_["WAYLAND_DISPLAY"] = "wayland-1";
  EXPECT_EQ(check("display").finding, "WAYLAND_DISPLAY=wayland-1");
  variables_ = {{"DISPLAY", ""}};
  EXPECT_EQ(check("display").status, Status::kWarning);
  why_not_loadable_["libEGL.so.1"] = "not found";
  EXPECT_EQ(check("display").status, Status::kMissing);
  EXPECT_THAT(check("display").advice, HasSubstr("apt install libegl1"));
}

TEST_F(DoctorTest, MeasuresTheDiskWhereTheOutputFolderWillBe) {
  EXPECT_THAT(check("disk space").finding,
              testing::EndsWith(" GiB free in " + folder_.path().string()));
}

TEST_F(DoctorTest, RefusesAnOutputFolderBelowAFile) {
  options_.output_folder = folder_.path() / "site/torch/version.py/runs";
  EXPECT_EQ(check("disk space").status, Status::kMissing);
  EXPECT_THAT(check("disk space").finding, testing::EndsWith("version.py is no folder"));
}

TEST_F(DoctorTest, RefusesAnOutputFolderThatItMayNotWriteTo) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const std::filesystem::path closed = folder_.path() / "closed";
  std::filesystem::create_directory(closed);
  std::filesystem::permissions(closed, std::filesystem::perms::owner_read);
  options_.output_folder = closed / "runs";
  EXPECT_EQ(check("disk space").status, Status::kMissing);
}

TEST(FormatDoctor, AlignsColumnsAndPutsAdviceBelow) {
  const std::vector<DoctorCheck> checks = {
      {.name = "driver", .finding = "580.159.04"},
      {.name = "foreign load",
       .status = Status::kWarning,
       .finding = "process 77",
       .advice = "End it."},
      {.name = "nvcc", .status = Status::kMissing, .finding = "not found", .advice = "Install it."},
  };
  EXPECT_EQ(format_doctor(checks),
            "driver        ok       580.159.04\n"
            "foreign load  warning  process 77\n"
            "                       -> End it.\n"
            "nvcc          missing  not found\n"
            "                       -> Install it.\n"
            "1 ok, 1 warning, 1 missing\n");
}

TEST(DoctorToJson, HasAllFourFields) {
  EXPECT_EQ(to_json(std::vector<DoctorCheck>{{.name = "nvcc",
                                              .status = Status::kMissing,
                                              .finding = "not found",
                                              .advice = "Install it."}}),
            nlohmann::json::parse(R"([{"name": "nvcc", "status": "missing",
                                       "finding": "not found", "advice": "Install it."}])"));
}

}  // namespace
}  // namespace steplens
