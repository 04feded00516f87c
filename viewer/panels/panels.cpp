#include "viewer/panels/panel.h"

namespace steplens {

// Each is in <name>.cpp.
std::unique_ptr<Panel> make_sweep_panel();
std::unique_ptr<Panel> make_matrix_panel();
std::unique_ptr<Panel> make_breakdown_panel();
std::unique_ptr<Panel> make_timeline_panel();
std::unique_ptr<Panel> make_kernels_panel();
std::unique_ptr<Panel> make_memory_panel();
std::unique_ptr<Panel> make_run_panel();
std::unique_ptr<Panel> make_advice_panel();

std::vector<std::unique_ptr<Panel>> make_panels() {
  std::vector<std::unique_ptr<Panel>> panels;
  panels.push_back(make_sweep_panel());
  panels.push_back(make_matrix_panel());
  panels.push_back(make_breakdown_panel());
  panels.push_back(make_timeline_panel());
  panels.push_back(make_kernels_panel());
  panels.push_back(make_memory_panel());
  panels.push_back(make_run_panel());
  panels.push_back(make_advice_panel());
  return panels;
}

}  // namespace steplens
