#include "profilers/system_machine.h"

#include <string>

#include "tests/profilers/nvml_replay.h"
#include "tests/profilers/temporary_folder.h"
#include <gtest/gtest.h>
#include <unistd.h>

namespace steplens {
namespace {

TEST(SystemMachine, ReadsTemperatureAndHeadroomOfTheNamedGpu) {
  NvmlReplay replay;
  replay.set("temperature", {{.value = 52}});
  replay.set("margin_temperature", {{.value = 35}});
  const Nvml nvml(NvmlReplay::api());
  const auto machine = make_machine(nvml, Host());
  EXPECT_EQ(machine->temperature_celsius("GPU-0"), 52.0);
  EXPECT_EQ(machine->headroom_celsius("GPU-0"), 35.0);
  EXPECT_EQ(machine->temperature_celsius("GPU-5"), std::nullopt);
}

TEST(SystemMachine, ListsGpusOrSaysWhyNot) {
  NvmlReplay replay;
  replay.num_gpus = 2;
  const Nvml nvml(NvmlReplay::api());
  const auto with_gpus = make_machine(nvml, Host());
  ASSERT_EQ(with_gpus->gpus().size(), 2u);
  EXPECT_EQ(with_gpus->gpus()[1].uuid, "GPU-1");
  EXPECT_EQ(with_gpus->why_no_gpu(), "");

  const Nvml none("libnvidia-ml.so.1 not found: no NVIDIA driver");
  const auto without = make_machine(none, Host());
  EXPECT_TRUE(without->gpus().empty());
  EXPECT_EQ(without->why_no_gpu(), "libnvidia-ml.so.1 not found: no NVIDIA driver");
  EXPECT_EQ(without->temperature_celsius("GPU-0"), std::nullopt);
  EXPECT_TRUE(without->foreign_processes("GPU-0").empty());
}

TEST(SystemMachine, TellsItsOwnChildrenFromStrangers) {
  const FolderOfFiles proc;
  const auto add_process = [&proc](std::int64_t pid, std::int64_t parent) {
    proc.write(std::to_string(pid) + "/stat",
               std::to_string(pid) + " (x) S " + std::to_string(parent) + " 0 0\n");
  };
  const std::int64_t self = getpid();
  constexpr std::int64_t kChild = 4'000'001;  // Above the kernel's largest default pid.
  constexpr std::int64_t kGrandchild = 4'000'002;
  constexpr std::int64_t kStranger = 4'000'003;
  add_process(self, 1);
  add_process(kChild, self);
  add_process(kGrandchild, kChild);
  add_process(kStranger, 1);

  NvmlReplay replay;
  constexpr std::uint64_t kMib = 1 << 20;
  replay.compute = {{.pid = kGrandchild, .used_bytes = 2000 * kMib},
                    {.pid = kStranger, .used_bytes = 1000 * kMib}};
  replay.set("memory_used", {{.value = 3000 * kMib}, {.value = 4000 * kMib}});
  const Nvml nvml(NvmlReplay::api());
  const auto machine = make_machine(nvml, Host(proc.path()));

  const auto listed = machine->foreign_processes("GPU-0");
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].pid, kStranger);

  const auto with_unseen = machine->foreign_processes("GPU-0");
  ASSERT_EQ(with_unseen.size(), 2u);
  EXPECT_EQ(with_unseen[1].pid, 0);
  EXPECT_EQ(with_unseen[1].memory_bytes, 1000 << 20);
}

TEST(SystemMachine, ReadsTheHost) {
  const FolderOfFiles proc;
  proc.write("cpuinfo", "model name : Some CPU\n");
  proc.write("loadavg", "3.5 0 0 1/1 1\n");
  const Nvml nvml("no driver");
  const auto machine = make_machine(nvml, Host(proc.path()));
  EXPECT_EQ(machine->cpu_model(), "Some CPU");
  EXPECT_EQ(machine->load_average(), 3.5);
  const nlohmann::json environment = machine->environment("");
  EXPECT_EQ(environment.at("host").at("cpu_model"), "Some CPU");
  EXPECT_TRUE(environment.at("gpu").is_null());
  EXPECT_FALSE(environment.contains("why_no_gpu")) << "a run on the CPU asked for none";
}

TEST(SystemMachine, EnvironmentNamesTheGpuOrTheReason) {
  NvmlReplay replay;
  const Nvml nvml(NvmlReplay::api());
  const auto machine = make_machine(nvml, Host());
  const nlohmann::json environment = machine->environment("GPU-0");
  EXPECT_EQ(environment.at("gpu").at("driver_version"), "580.159.04");
  EXPECT_EQ(environment.at("num_gpus"), 1);
  EXPECT_EQ(machine->environment("GPU-3").at("why_no_gpu"),
            "the driver knows no GPU with this UUID");
  const Nvml none("no driver");
  EXPECT_EQ(make_machine(none, Host())->environment("GPU-0").at("why_no_gpu"), "no driver");
}

TEST(MakeSystemMachine, KnowsThisMachine) {
  const auto machine = make_system_machine();
  EXPECT_EQ(machine->gpus().empty(), !machine->why_no_gpu().empty());
  EXPECT_FALSE(machine->cpu_model().empty());
  EXPECT_TRUE(machine->environment("").at("host").at("kernel_version").is_string());
}

}  // namespace
}  // namespace steplens
