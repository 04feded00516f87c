#pragma once

#include <nvtx3/nvToolsExt.h>

#include "profilers/trace/range_recorder.h"

namespace steplens {

/// Makes this recorder the receiver of all NVTX calls of the module that asks (each shared library
/// that uses NVTX asks for itself). Returns 1, or 0 if the module's NVTX is not one we know.
int attach_nvtx(NvtxGetExportTableFunc_t get_export_table, RangeRecorder& ranges);

/// From now on NVTX calls do nothing. Needs no lock: for a process that has just been forked.
void detach_nvtx();

}  // namespace steplens
