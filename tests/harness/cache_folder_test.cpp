#include "harness/cache_folder.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

TEST(CacheFolder, IsNamedByTheVariableThenXdgThenHome) {
  ::setenv("STEPLENS_TEST_FOLDER", "/own", 1);
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  ::setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(cache_folder_of("STEPLENS_TEST_FOLDER", "gemm"), "/own");
  ::unsetenv("STEPLENS_TEST_FOLDER");
  EXPECT_EQ(cache_folder_of("STEPLENS_TEST_FOLDER", "gemm"), "/xdg/steplens/gemm");
  ::setenv("XDG_CACHE_HOME", "", 1);
  EXPECT_EQ(cache_folder(), "/home/somebody/.cache/steplens");
  ::unsetenv("HOME");
  EXPECT_THROW(cache_folder(), ConfigError);
  ::setenv("STEPLENS_TEST_FOLDER", "/own", 1);
  EXPECT_EQ(cache_folder_of("STEPLENS_TEST_FOLDER", "gemm"), "/own");
}

}  // namespace
}  // namespace steplens
