#include "profilers/cupti/cupti_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace steplens {
namespace {

constexpr const char* kLibrary = "libcupti.so.13";

}  // namespace

CuptiLibrary::CuptiLibrary() : library_(::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) why_not_ = fmt::format("CUPTI cannot be loaded: {}", ::dlerror());
}

void* CuptiLibrary::find(const char* name) {
  if (library_ == nullptr) return nullptr;
  void* symbol = ::dlsym(library_, name);
  if (symbol == nullptr && why_not_.empty()) {
    why_not_ = fmt::format("{} has no {}: CUPTI of CUDA 13.0 is needed", kLibrary, name);
  }
  return symbol;
}

}  // namespace steplens
