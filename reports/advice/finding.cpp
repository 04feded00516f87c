#include "reports/advice/finding.h"

#include <nlohmann/json.hpp>

namespace steplens {

std::string_view name_of(EvidenceKind kind) {
  switch (kind) {
    case EvidenceKind::kStep: return "step";
    case EvidenceKind::kPhase: return "phase";
    case EvidenceKind::kCategory: return "category";
    case EvidenceKind::kKernel: return "kernel";
    case EvidenceKind::kIdle: return "idle";
    case EvidenceKind::kCall: return "call";
    case EvidenceKind::kCounter: return "counter";
    case EvidenceKind::kMemory: return "memory";
    case EvidenceKind::kConfig: return "config";
  }
  return "";
}

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kHigh: return "high";
    case Severity::kMedium: return "medium";
    case Severity::kLow: return "low";
  }
  return "";
}

Severity severity_of(const Finding& finding) {
  if (!finding.max_gain_ratio || finding.is_refuted) return Severity::kLow;
  if (*finding.max_gain_ratio >= 1.10) return Severity::kHigh;
  return *finding.max_gain_ratio >= 1.03 ? Severity::kMedium : Severity::kLow;
}

nlohmann::json to_json(const std::vector<Finding>& findings) {
  nlohmann::json array = nlohmann::json::array();
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
  };
  for (const Finding& finding : findings) {
    nlohmann::json evidence = nlohmann::json::array();
    for (const Evidence& item : finding.evidence) {
      evidence.push_back({{"kind", name_of(item.kind)}, {"key", item.key}, {"text", item.text}});
    }
    array.push_back(
        {{"rule", finding.rule},
         {"title", finding.title},
         {"arm", finding.arm},
         {"severity", name_of(finding.severity)},
         {"message", finding.message},
         {"evidence", std::move(evidence)},
         {"max_gain_ratio", finding.max_gain_ratio ? nlohmann::json(*finding.max_gain_ratio)
                                                   : nlohmann::json(nullptr)},
         {"bound", finding.bound},
         {"toggle", or_null(finding.toggle)},
         {"level", or_null(finding.level)},
         {"measured", or_null(finding.measured)},
         {"is_refuted", finding.is_refuted},
         {"command", or_null(finding.command)}});
  }
  return array;
}

}  // namespace steplens
