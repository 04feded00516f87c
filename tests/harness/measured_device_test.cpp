#include "harness/measured_device.h"

#include "tests/harness/fake_site.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Two GPUs, of which somebody uses the first.
class TwoGpus : public testing_support::FakeMachine {
 public:
  TwoGpus() {
    gpu_list = {{.uuid = "GPU-a", .name = "H", .pci_id = "0000:01:00.0"},
                {.uuid = "GPU-b", .name = "L", .pci_id = "0000:02:00.0"}};
  }
  std::vector<ForeignProcess> foreign_processes(const std::string& uuid) override {
    return uuid == "GPU-a" || are_both_busy ? std::vector<ForeignProcess>{{.pid = 1}}
                                            : std::vector<ForeignProcess>{};
  }
  bool are_both_busy = false;
};

TEST(ChooseDevice, TakesTheGpuThatIsNamedByUuidOrPciId) {
  TwoGpus machine;
  EXPECT_EQ(choose_device(machine, Device::kCuda, "GPU-a", "GPU-b").gpu_uuid, "GPU-a");
  EXPECT_EQ(choose_device(machine, Device::kCuda, "0000:01:00.0", "").gpu_uuid, "GPU-a");
  EXPECT_THAT([&] { choose_device(machine, Device::kCuda, "0", ""); },
              ThrowsMessage<ConfigError>(HasSubstr("GPU-a, GPU-b")));
}

TEST(ChooseDevice, PrefersTheOneOfAnEarlierSessionThenAFreeOne) {
  TwoGpus machine;
  EXPECT_EQ(choose_device(machine, Device::kCuda, "", "GPU-a").gpu_uuid, "GPU-a");
  EXPECT_EQ(choose_device(machine, Device::kCuda, "", "").gpu_uuid, "GPU-b");
  EXPECT_EQ(choose_device(machine, Device::kCuda, "", "").gpu_name, "L");
  EXPECT_EQ(choose_device(machine, Device::kCuda, "", "GPU-gone").gpu_uuid, "GPU-b");
  machine.are_both_busy = true;
  EXPECT_EQ(choose_device(machine, Device::kCuda, "", "").gpu_uuid, "GPU-a");
}

TEST(ChooseDevice, NamesACpuByItsModel) {
  TwoGpus machine;
  const MeasuredDevice device = choose_device(machine, Device::kCpu, "", "");
  EXPECT_EQ(device.machine_id, "Fake CPU");
  EXPECT_EQ(device.gpu_uuid, "");
}

TEST(DescribeData, TakesTheJsonBesideTheFileOrItsHash) {
  testing_support::FakeWorld world;
  EXPECT_EQ(describe_data(world.data_path())["sha256"], "abc");
  const std::filesystem::path raw = world.folder() / "raw.bin";
  write_file_atomically(raw, "abc");
  // SHA-256 of "abc": the first test vector of FIPS 180-2.
  EXPECT_EQ(describe_data(raw)["sha256"],
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_THAT([&] { describe_data(world.folder() / "missing.bin"); },
              ThrowsMessage<ConfigError>(HasSubstr("steplens data prepare")));
}

}  // namespace
}  // namespace steplens
