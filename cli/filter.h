// The options of `rtf filter`, and its two ways: arrays whole, sound files piece by piece.
#pragma once

#include <string>
#include <vector>

#include "common.h"
#include "core/conditioning.h"
#include "core/rounding.h"
#include "core/runnable_filter.h"
#include "rtf/filter.h"

namespace rtf::cli {

struct FilterCommandOptions : CommonOptions {
  std::string input, output, method = "auto", initial_state, final_state, dtype;
  std::size_t chunk = 0;
};

FilterMethod filter_method(const std::string& name);

// The state that --initial-state names, or zeros: (batch, channels, order of all sections).
std::vector<double> initial_state(const FilterCommandOptions& options, const std::vector<std::size_t>& shape);

// The plan's own warning, with what the sections lost of the file's poles and zeros added to its rounding.
template <class T>
std::string rounding_warning(const CascadePlan<T>& plan, double of_sections) {
  return rounding_text(plan.rounding_estimate() + of_sections, tolerance<T>, plan.method());
}

bool is_wav(const std::string& path);
void filter_wav(const FilterCommandOptions& options, const RunnableFilter& file);

}  // namespace rtf::cli
