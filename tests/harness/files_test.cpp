#include "harness/files.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/error.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("steplens-files-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::size_t num_entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(Files, AWriteReplacesTheFileWholeAndLeavesNothingElse) {
  write_file_atomically(folder_ / "a", "first");
  write_file_atomically(folder_ / "a", "second");
  EXPECT_EQ(read_file(folder_ / "a"), "second");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(Files, AFullDiskKeepsTheOldContentAndNamesPathAndCause) {
  write_file_atomically(folder_ / "a", "old");
  // A file may not grow beyond 1000 bytes: the write fails as it does on a full disk.
  rlimit previous{};
  ::getrlimit(RLIMIT_FSIZE, &previous);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = previous;
  small.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    write_file_atomically(folder_ / "a", std::string(5000, 'x'));
  } catch (const ConfigError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &previous);
  ::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find((folder_ / "a").string() + ": cannot write"), std::string::npos)
      << message;
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(Files, AMissingFolderIsNamed) {
  EXPECT_THROW(write_file_atomically(folder_ / "no" / "a", "x"), ConfigError);
  EXPECT_THROW(read_file(folder_ / "none"), ConfigError);
  EXPECT_THROW(read_file(folder_), ConfigError);
}

TEST_F(Files, DamagedJsonIsNamedWithItsPlace) {
  std::ofstream(folder_ / "x.json") << R"({"a": 1, )";
  try {
    read_json(folder_ / "x.json");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("x.json: damaged JSON at byte 10 of 9"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Files, PublishingNeverOverwrites) {
  fs::create_directories(folder_ / "tmp");
  fs::create_directories(folder_ / "there");
  EXPECT_THROW(publish_folder(folder_ / "tmp", folder_ / "there"), ConfigError);
  publish_folder(folder_ / "tmp", folder_ / "new");
  EXPECT_TRUE(fs::exists(folder_ / "new"));
  EXPECT_FALSE(fs::exists(folder_ / "tmp"));
}

TEST_F(Files, Sha256IsTheStandards) {
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  write_file_atomically(folder_ / "abc", "abc");
  EXPECT_EQ(sha256_file_hex(folder_ / "abc"), sha256_hex("abc"));
}

TEST_F(Files, FolderNamesKeepOnlyPlainCharacters) {
  EXPECT_EQ(folder_name_of("attention=flash"), "attention-flash");
  EXPECT_EQ(folder_name_of("a/b c_1.2-x"), "a-b-c_1.2-x");
}

}  // namespace
}  // namespace steplens
