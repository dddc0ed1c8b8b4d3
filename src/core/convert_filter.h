// A filter of any number of channels from one form to another: what `rtf convert` and rtf.convert of Python do.
#pragma once

#include <string>
#include <vector>

#include "rtf/conversion.h"
#include "rtf/filter_file.h"

namespace rtf {

struct ConvertedFilter {
  AnyFilter filter;
  std::vector<ConversionReport> reports;  // one a channel; one for several inputs and outputs
  std::string form;                       // that was asked for; "mimo" where a tf has several inputs or outputs

  // A line for every channel that has fewer than three digits left.
  std::vector<std::string> warnings() const;
};

// To "tf", "ba", "ss", "modal", "zpk" or "sos"; a trained filter is corrected first.
ConvertedFilter convert(const AnyFilter& filter, const std::string& to, const ConversionOptions& options);

// Whether ConversionOptions::method has a say.
bool is_state_space(const AnyFilter& filter);

}  // namespace rtf
