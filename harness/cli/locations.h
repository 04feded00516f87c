#pragma once

#include <filesystem>
#include <string_view>

#include "harness/cli/context.h"
#include "harness/package_export.h"

namespace steplens {

/// The folder of this executable.
std::filesystem::path executable_folder();

/// steplens-worker: what STEPLENS_WORKER names, else the one beside this executable. Empty if there
/// is none.
std::filesystem::path find_worker();

/// The same. ConfigError if there is none, or it is not executable.
std::filesystem::path worker_or_throw();

/// The folder scripts/ beside bin/, else the one of the source tree that this program was built
/// from. Empty if neither is there.
std::filesystem::path find_scripts_folder();

/// The site-packages folder with LibTorch: what STEPLENS_TORCH names, else the link libtorch beside
/// bin/, else what find_torch.sh finds. Empty if there is none.
std::filesystem::path find_site_packages();

/// What makes the packages of compile=aoti.
PackageExport package_export_of(const PlanVocabulary& vocabulary);

/// Where the token file of a corpus lies by default: "torch-python-bytes.bin" or
/// "torch-python-bpe50304.bin" in the cache folder's data/.
std::filesystem::path default_data_path(std::string_view dataset, std::string_view tokenizer,
                                        std::int64_t vocab_size);

/// Where a run into `bundle` keeps what only this machine needs to resume it: in the cache folder.
/// Empty if there is no cache folder.
std::filesystem::path resume_memory_path(const std::filesystem::path& bundle);

}  // namespace steplens
