#include "workloads/catalog/package_info.h"

#include "tests/catalog/token_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/files.h"

namespace steplens {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RunConfig small_config() {
  RunConfig config;
  config.shape = {.num_layers = 1,
                  .d_model = 16,
                  .num_heads = 4,
                  .num_kv_heads = 2,
                  .head_dim = 4,
                  .ffn_width = 24,
                  .vocab_size = 257};
  config.sequence_length = 32;
  config.global_batch_size = 4;
  config.compile = Compile::kAoti;
  return config;
}

const PackagePlace kHere = {.torch_version = "2.11.0", .architecture = "AVX512"};

class PackageInfoTest : public testing::FolderTest {
 protected:
  void write_package(const nlohmann::json& changes = nlohmann::json::object()) const {
    write(package_name(small_config()) + ".pt2", "package");
    nlohmann::json info = {{"step_version", kPackageStepVersion},
                           {"torch_version", "2.11.0"},
                           {"architecture", "AVX512"},
                           {"config", package_config(small_config())},
                           {"package_sha256", sha256_hex("package")}};
    info.update(changes);
    write_json_atomically(folder_ / (package_name(small_config()) + ".json"), info);
  }
  std::string refusal() const { return why_package_refused(folder_, small_config(), kHere); }
};

// The name that scripts/arms/export_step.py gives the same config; tests/scripts/export_test.py
// holds it too.
TEST_F(PackageInfoTest, NameIsThatOfTheExporter) {
  EXPECT_EQ(package_name(small_config()), "L1-d16-B4-T32-fp32-flash-cpu-f878dbc87716");
}

TEST_F(PackageInfoTest, NameChangesWithWhatIsComputedAndWithNothingElse) {
  const std::string name = package_name(small_config());
  RunConfig config = small_config();
  config.optimizer = Optimizer::kFused;
  config.learning_rate = 1;
  config.seed = 7;
  config.graph = true;
  EXPECT_EQ(package_name(config), name);
  // Four rows in two micro-batches are as many as two in one.
  RunConfig halves = small_config();
  halves.num_accumulation = 2;
  RunConfig two = small_config();
  two.global_batch_size = 2;
  EXPECT_EQ(package_name(halves), package_name(two));
  for (const auto change :
       {+[](RunConfig& c) { c.attention = Attention::kMath; },
        +[](RunConfig& c) { c.num_accumulation = 2; },
        +[](RunConfig& c) { c.shape.ffn_width = 32; }, +[](RunConfig& c) { c.rope_base = 5e5; },
        +[](RunConfig& c) { c.frozen = Frozen::kEmbeddings; }}) {
    RunConfig other = small_config();
    change(other);
    EXPECT_NE(package_name(other), name);
  }
}

TEST_F(PackageInfoTest, PackageThatFitsIsNotRefused) {
  write_package();
  EXPECT_EQ(refusal(), "");
}

TEST_F(PackageInfoTest, MissingStaleAndForeignPackagesAreRefusedWithTheReason) {
  EXPECT_THAT(refusal(), HasSubstr("has not been exported"));
  write_package({{"torch_version", "2.10.0"}});
  EXPECT_THAT(refusal(), HasSubstr("made for torch_version=2.10.0, this is 2.11.0"));
  write_package({{"architecture", "sm_80"}});
  EXPECT_THAT(refusal(), HasSubstr("made for architecture=sm_80, this is AVX512"));
  write_package({{"step_version", 0}});
  EXPECT_THAT(refusal(), HasSubstr("step_version=0, this is 2"));
  nlohmann::json config = package_config(small_config());
  config["d_model"] = 32;
  write_package({{"config", config}});
  EXPECT_THAT(refusal(), HasSubstr("d_model=32, this is 16"));
  write_package({{"package_sha256", sha256_hex("another")}});
  EXPECT_THAT(refusal(), HasSubstr("not the file that its JSON describes"));
  write_package({{"package_sha256", 5}});
  EXPECT_THAT(refusal(), HasSubstr("damaged"));
  write(package_name(small_config()) + ".json", "{");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("damaged"), HasSubstr("compile=aoti")));
}

}  // namespace
}  // namespace steplens
