#include "workloads/compiled/compiled_pass.h"

#include <chrono>
#include <vector>

#include <ATen/Version.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_foreach_add.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/version.h>

#include "harness/error.h"
#include "workloads/catalog/package_info.h"
#include "workloads/evidence.h"

namespace steplens {
namespace {

PackagePlace place_of(const RunConfig& config) {
  PackagePlace place{.torch_version = fmt::format("{}.{}.{}", TORCH_VERSION_MAJOR,
                                                  TORCH_VERSION_MINOR, TORCH_VERSION_PATCH),
                     .architecture = at::get_cpu_capability()};
  if (config.device == Device::kCuda) {
    const cudaDeviceProp* properties = at::cuda::getCurrentDeviceProperties();
    place.architecture = fmt::format("sm_{}{}", properties->major, properties->minor);
  }
  return place;
}

// A package asks for libtorch.so by name, which nothing else here loads and which only this
// program's own search path finds.
void load_libtorch() {
  if (::dlopen("libtorch.so", RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
    throw ConfigError(fmt::format("compile=aoti: {}", ::dlerror()));
  }
}

}  // namespace

struct CompiledPass::Loader {
  torch::inductor::AOTIModelPackageLoader package;
};

CompiledPass::CompiledPass(const RunConfig& config) {
  const auto start = std::chrono::steady_clock::now();
  const std::string refusal = why_not(config);
  if (!refusal.empty()) throw ConfigError(refusal);
  load_libtorch();
  const std::string name = package_name(config);
  const auto path = packages_folder() / (name + ".pt2");
  const c10::DeviceIndex device_index = config.device == Device::kCuda ? 0 : -1;
  loader_.reset(new Loader{.package = {path.string(), "model", /*run_single_threaded=*/true,
                                       /*num_runners=*/1, device_index}});
  const std::int64_t load_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count();
  const nlohmann::json info = package_info(packages_folder(), config);
  for (const char* key : {"attention", "precision"}) {
    run_counters_.push_back(
        fmt::format("package_{}_{}", key, info.at("config").at(key).get<std::string>()));
  }
  facts_ = {{"name", name},
            {"export_ns", info.at("export_ns")},
            {"trace_ns", info.at("trace_ns")},
            {"package_bytes", info.at("package_bytes")},
            {"load_ns", load_ns}};
  compile_ns_ = info.at("export_ns").get<std::int64_t>() + load_ns;
}

CompiledPass::~CompiledPass() = default;

std::string CompiledPass::why_not(const RunConfig& config) {
  if (config.compile == Compile::kOff) return "";
  return why_package_refused(packages_folder(), config, place_of(config));
}

at::Tensor CompiledPass::run(const Model& model, const at::Tensor& tokens_BT,
                             const at::Tensor& targets_BT, const at::Tensor& scale) {
  const c10::AutoGradMode no_grad(false);
  count_event("package_runs");
  for (const std::string& counter : run_counters_) count_event(counter);
  count_event("forward_passes");
  const std::vector<Parameter>& parameters = model.parameters();
  std::vector<at::Tensor> inputs = {tokens_BT, targets_BT, scale, model.cos_TD(), model.sin_TD()};
  inputs.reserve(inputs.size() + parameters.size());
  for (const Parameter& parameter : parameters) inputs.push_back(parameter.value);
  std::vector<at::Tensor> outputs = loader_->package.run(inputs);

  std::vector<at::Tensor> sums;  // Of earlier micro-batches.
  std::vector<at::Tensor> added;
  std::size_t next = 1;
  for (const Parameter& parameter : parameters) {
    if (!parameter.is_trained) continue;
    SL_CHECK(next < outputs.size() && outputs[next].sizes() == parameter.value.sizes());
    at::Tensor& gradient = at::Tensor(parameter.value).mutable_grad();
    if (gradient.defined()) {
      sums.push_back(gradient);
      added.push_back(outputs[next]);
    } else {
      gradient = outputs[next].contiguous();
    }
    ++next;
  }
  if (!sums.empty()) at::_foreach_add_(sums, added);
  SL_CHECK(next == outputs.size());
  return outputs.front();
}

}  // namespace steplens
