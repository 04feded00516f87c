#include "kernels/gemm/gemm.h"

#include <bit>
#include <initializer_list>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "harness/files.h"
#include "kernels/cuda_check.h"
#include "kernels/gemm/plan.h"
#include "kernels/gemm/tune.h"

namespace steplens {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSchemaVersion = 2;  // 2: algorithms beside the heuristic's offers.

std::string hex_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

// Throws std::exception where the text is not what hex_of writes.
cublasLtMatmulAlgo_t algorithm_of(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm{};
  constexpr std::size_t kDigits = 16;
  if (text.size() != kDigits * std::size(algorithm.data)) throw ConfigError("algorithm");
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) {
    algorithm.data[i] = std::stoull(text.substr(i * kDigits, kDigits), nullptr, 16);
  }
  return algorithm;
}

std::int64_t setting_or_absent(const cublasLtMatmulAlgo_t& algorithm,
                               cublasLtMatmulAlgoConfigAttributes_t attribute) {
  const std::optional<std::uint32_t> value = gemm_setting(algorithm, attribute);
  return value ? std::int64_t{*value} : -1;
}

json row_of(const std::string& name, const GemmAlgorithm& algorithm) {
  return {{"product", name},
          {"algorithm", hex_of(algorithm.value)},
          {"tile_id", setting_or_absent(algorithm.value, CUBLASLT_ALGO_CONFIG_TILE_ID)},
          {"stages_id", setting_or_absent(algorithm.value, CUBLASLT_ALGO_CONFIG_STAGES_ID)},
          {"split_k", setting_or_absent(algorithm.value, CUBLASLT_ALGO_CONFIG_SPLITK_NUM)},
          {"heuristic_ns", algorithm.heuristic_ns},
          {"chosen_ns", algorithm.chosen_ns},
          {"num_candidates", algorithm.num_candidates}};
}

std::string device_name() {
  int device = 0;
  SL_CUDA(cudaGetDevice(&device));
  cudaDeviceProp properties{};
  SL_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

void check_shape(const GemmShape& shape) {
  const auto check_size = [](const char* field, std::int64_t value) {
    check_argument(value >= 1, "gemm", field, value, "must be >= 1");
  };
  check_size("M", shape.M);
  check_size("N", shape.N);
  check_size("K", shape.K);
  if (shape.output_type != shape.type && shape.output_type != ElementType::kFloat32) {
    throw ConfigError(fmt::format("gemm: output_type={}: must be {} or float32",
                                  element_name(shape.output_type), element_name(shape.type)));
  }
}

// The largest power of two that divides all addresses, up to what cuBLASLt asks for.
std::int64_t alignment_of(std::initializer_list<const void*> pointers) {
  std::uintptr_t bits = kMaxGemmAlignmentBytes;
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return std::int64_t{1} << std::countr_zero(bits);
}

struct Entry {
  std::unique_ptr<GemmPlan> plan;
  GemmAlgorithm algorithm;
  std::size_t workspace_bytes = 0;

  void choose(const GemmAlgorithm& chosen) {
    algorithm = chosen;
    workspace_bytes =
        plan->needs(chosen.value).value_or(GemmPlan::Needs{kGemmWorkspaceBytes}).workspace_bytes;
  }
};

}  // namespace

struct GemmTable::State {
  explicit State(fs::path folder_in) : folder(std::move(folder_in)) {
    const cublasStatus_t status = cublasLtCreate(&handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw DeviceError(
          fmt::format("gemm: cublasLtCreate returned {}", cublasLtGetStatusName(status)));
    }
    device = device_name();
    file = folder / fmt::format("{}-cublaslt{}.json", folder_name_of(device), cublasLtGetVersion());
    read();
  }
  ~State() {
    entries.clear();
    cublasLtDestroy(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Rows that cannot be read are measured again.
  void read() {
    try {
      if (!fs::exists(file)) return;
      const json table = read_json(file);
      if (table.at("schema_version") != kSchemaVersion || table.at("device") != device ||
          table.at("cublaslt_version") != cublasLtGetVersion()) {
        return;
      }
      for (const json& row : table.at("products")) {
        known[row.at("product").get<std::string>()] = {
            .value = algorithm_of(row.at("algorithm").get<std::string>()),
            .heuristic_ns = row.at("heuristic_ns").get<std::int64_t>(),
            .chosen_ns = row.at("chosen_ns").get<std::int64_t>(),
            .num_candidates = row.at("num_candidates").get<int>()};
      }
    } catch (const std::exception&) {
      known.clear();
    }
  }

  void write() const {
    json products = json::array();
    for (const auto& [name, algorithm] : known) products.push_back(row_of(name, algorithm));
    fs::create_directories(folder);
    write_json_atomically(file, {{"schema_version", kSchemaVersion},
                                 {"device", device},
                                 {"cublaslt_version", cublasLtGetVersion()},
                                 {"products", std::move(products)}});
  }

  // `args.shape` with the pointers' alignment.
  const Entry& entry_of(const GemmArgs& args, cudaStream_t stream) {
    const std::string name = name_of(args.shape);
    Entry& entry = (args.is_tuned ? entries : untuned_entries)[name];
    if (!entry.plan) {
      check_shape(args.shape);
      entry.plan = std::make_unique<GemmPlan>(handle, args.shape);
      const auto it = args.is_tuned ? known.find(name) : known.end();
      if (it != known.end() && entry.plan->needs(it->second.value)) {
        entry.choose(it->second);
        return entry;
      }
      entry.choose({.value = entry.plan->candidates().front()});
    }
    const bool was_tried = entry.algorithm.is_measured() || entry.algorithm.num_candidates > 0;
    if (was_tried || !args.is_tuned) return entry;
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    SL_CUDA(cudaStreamIsCapturing(stream, &capture));
    if (capture != cudaStreamCaptureStatusNone) return entry;
    entry.choose(tune(*entry.plan, args, stream));
    if (entry.algorithm.is_measured()) {
      read();  // What other processes have measured meanwhile.
      known[name] = entry.algorithm;
      write();
    }
    return entry;
  }

  fs::path folder, file;
  std::string device;
  cublasLtHandle_t handle = nullptr;
  std::map<std::string, GemmAlgorithm> known;  // As in the file.
  std::unordered_map<std::string, Entry> entries, untuned_entries;
  mutable std::mutex mutex;
};

GemmTable::GemmTable(fs::path folder) : state_(std::make_unique<State>(std::move(folder))) {}
GemmTable::~GemmTable() = default;

void GemmTable::run(const GemmArgs& given, cudaStream_t stream) {
  GemmArgs args = given;
  args.shape.alignment_bytes = alignment_of({args.a, args.b, args.r, args.c});
  const std::scoped_lock lock(state_->mutex);
  const Entry& entry = state_->entry_of(args, stream);
  const bool is_counter_enough =
      args.counter != nullptr && entry.workspace_bytes <= kGemmCounterBytes;
  if (is_counter_enough) args.workspace = args.counter;
  const cublasStatus_t status =
      entry.plan->run(args, entry.algorithm.value,
                      is_counter_enough ? kGemmCounterBytes : kGemmWorkspaceBytes, stream);
  if (status != CUBLAS_STATUS_SUCCESS) throw_gemm_error(args.shape, "cublasLtMatmul", status);
}

json GemmTable::facts() const {
  const std::scoped_lock lock(state_->mutex);
  json products = json::array();
  std::map<std::string, const Entry*> sorted;
  for (const auto& [name, entry] : state_->entries) sorted[name] = &entry;
  for (const auto& [name, entry] : sorted) {
    json row = row_of(name, entry->algorithm);
    row["is_measured"] = entry->algorithm.is_measured();
    products.push_back(std::move(row));
  }
  return {{"device", state_->device},
          {"cublaslt_version", cublasLtGetVersion()},
          {"products", std::move(products)}};
}

std::string name_of(const GemmShape& shape) {
  std::string name =
      fmt::format("{}x{}x{} {}{} {}", shape.M, shape.N, shape.K, shape.is_a_transposed ? 't' : 'n',
                  shape.is_b_transposed ? 't' : 'n', element_name(shape.type));
  if (shape.is_tf32) name += " as tf32";
  if (shape.output_type != shape.type)
    name += fmt::format(" to {}", element_name(shape.output_type));
  if (shape.is_added) name += " added";
  if (shape.alignment_bytes < kMaxGemmAlignmentBytes) {
    name += fmt::format(" aligned {}", shape.alignment_bytes);
  }
  return name;
}

std::int64_t flops(const GemmShape& shape) { return 2 * shape.M * shape.N * shape.K; }

std::int64_t minimum_bytes(const GemmShape& shape) {
  const std::int64_t passes = shape.is_added ? 2 : 1;
  return (shape.M * shape.K + shape.K * shape.N) * element_bytes(shape.type) +
         passes * shape.M * shape.N * element_bytes(shape.output_type);
}

}  // namespace steplens
