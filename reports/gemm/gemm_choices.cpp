#include "reports/gemm/gemm_choices.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/json_field.h"
#include "reports/format.h"

namespace steplens {
namespace {

using nlohmann::json;

// The products of one block; null if it has none.
const json* products_of(const BlockRecord& block) {
  if (!block.evidence.is_object() || block.status != BlockStatus::kOk) return nullptr;
  const auto gemm = block.evidence.find("gemm");
  if (gemm == block.evidence.end() || !gemm->is_object()) return nullptr;
  const auto products = gemm->find("products");
  return products != gemm->end() && products->is_array() && !products->empty() ? &*products
                                                                               : nullptr;
}

std::string text_at(const json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_string() ? it->get<std::string>() : "";
}

std::int64_t integer_at(const json& row, const char* key, std::int64_t otherwise) {
  return std::llround(number_at(row, key).value_or(static_cast<double>(otherwise)));
}

std::string id_text(std::int64_t id) { return id < 0 ? "-" : fmt::format("{}", id); }

}  // namespace

std::vector<GemmChoice> gemm_choices(const Bundle& bundle) {
  std::vector<GemmChoice> choices;
  std::map<std::string, std::string> algorithms;  // Of the first block, by product.
  for (const BlockRecord& block : bundle.blocks) {
    const json* products = products_of(block);
    if (products == nullptr) continue;
    const bool is_first = choices.empty();
    for (const json& row : *products) {
      const std::string product = row.is_object() ? text_at(row, "product") : "";
      if (product.empty()) continue;
      const std::string algorithm = text_at(row, "algorithm");
      if (is_first) {
        algorithms[product] = algorithm;
        choices.push_back({.product = product,
                           .heuristic_ns = integer_at(row, "heuristic_ns", 0),
                           .chosen_ns = integer_at(row, "chosen_ns", 0),
                           .num_candidates = integer_at(row, "num_candidates", 0),
                           .tile_id = integer_at(row, "tile_id", -1),
                           .stages_id = integer_at(row, "stages_id", -1),
                           .split_k = integer_at(row, "split_k", -1)});
        continue;
      }
      const auto known = algorithms.find(product);
      if (known == algorithms.end() || known->second == algorithm) continue;
      std::ranges::find(choices, product, &GemmChoice::product)->is_same_everywhere = false;
    }
  }
  std::ranges::sort(choices, std::ranges::greater(), [](const GemmChoice& choice) {
    return std::pair(choice.heuristic_ns, choice.product);
  });
  return choices;
}

Table gemm_table(const std::vector<GemmChoice>& choices) {
  Table table{.columns = {{"product (M x N x K)"},
                          {"heuristic's choice", Align::kRight},
                          {"fastest", Align::kRight},
                          {"faster by", Align::kRight},
                          {"tried", Align::kRight},
                          {"tile", Align::kRight},
                          {"stages", Align::kRight},
                          {"split of K", Align::kRight},
                          {"in every block"}}};
  for (const GemmChoice& choice : choices) {
    const auto duration = [](std::int64_t ns) {
      return ns > 0 ? format_duration_ns(static_cast<double>(ns)) : std::string("not measured");
    };
    table.rows.push_back({choice.product, duration(choice.heuristic_ns), duration(choice.chosen_ns),
                          choice.chosen_ns > 0
                              ? format_percent(static_cast<double>(choice.heuristic_ns) /
                                                   static_cast<double>(choice.chosen_ns) -
                                               1)
                              : "-",
                          fmt::format("{}", choice.num_candidates), id_text(choice.tile_id),
                          id_text(choice.stages_id), id_text(choice.split_k),
                          choice.is_same_everywhere ? "the same" : "another in some"});
  }
  return table;
}

}  // namespace steplens
