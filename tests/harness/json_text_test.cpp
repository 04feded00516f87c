#include "harness/json_text.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace steplens {
namespace {

using nlohmann::json;

TEST(JsonText, HasListsOfNumbersOnOneLineAndTheRestIndented) {
  const json value = {{"steps", {{"loss", {1.5, nullptr, 1e-8}}, {"names", {"a", "b"}}}},
                      {"arms", {{{"name", "x"}}, {{"name", "y"}, {"empty", json::array()}}}},
                      {"nothing", json::object()}};
  EXPECT_EQ(json_text(value), R"({
 "arms": [
  {
   "name": "x"
  },
  {
   "empty": [],
   "name": "y"
  }
 ],
 "nothing": {},
 "steps": {
  "loss": [1.5, null, 1e-08],
  "names": ["a", "b"]
 }
}
)");
  EXPECT_EQ(json::parse(json_text(value)), value);
  EXPECT_EQ(json_text(3), "3\n");
  EXPECT_EQ(json_text(json::array({json::array({1, 2}), 3})), "[\n [1, 2],\n 3\n]\n");
}

TEST(JsonText, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(json_text({{"log", "a\xff"}}), "{\n \"log\": \"a\xef\xbf\xbd\"\n}\n");
}

}  // namespace
}  // namespace steplens
