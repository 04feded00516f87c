#pragma once

#include <string>
#include <type_traits>

namespace steplens {

/// CUPTI of CUDA 13 as the process finds it, and its functions by name. It stays loaded.
class CuptiLibrary {
 public:
  CuptiLibrary();

  /// Null if the library, or the function, is not there: `why_not` says so.
  template <typename Function>
  void resolve(Function& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<Function>>(find(name));
  }

  /// A sentence: what was missing first. Empty if nothing was.
  const std::string& why_not() const { return why_not_; }

 private:
  void* find(const char* name);

  void* library_ = nullptr;
  std::string why_not_;
};

}  // namespace steplens
