#pragma once

#include <memory>

#include "harness/machine.h"
#include "profilers/host.h"
#include "profilers/nvml.h"

namespace steplens {

/// This machine. NVML is loaded at the first question about GPUs, not before.
std::unique_ptr<Machine> make_system_machine();

/// A machine of given parts, for tests. `nvml` must outlive it.
std::unique_ptr<Machine> make_machine(const Nvml& nvml, Host host);

}  // namespace steplens
