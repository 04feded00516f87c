#pragma once

#include <vector>

#include "reports/breakdown/waterfall.h"
#include "viewer/draw/data_table.h"
#include "viewer/draw/theme.h"

namespace steplens {

/// Columns of a table of kernels in two arms.
std::vector<TableColumn> kernel_change_columns();

/// One kernel of it. Its id, and what CSV gets, is the name as in the trace.
TableRow kernel_change_row(const Theme& theme, const KernelDifference& kernel);

}  // namespace steplens
