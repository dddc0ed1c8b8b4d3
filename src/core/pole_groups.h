// The poles of a filter file.
#pragma once

#include <complex>
#include <string>
#include <vector>

#include "rtf/filter_file.h"

namespace rtf {

struct PoleGroup {
  std::vector<std::complex<double>> poles;  // largest modulus first
  double radius;
  bool stable;
};

// One for each denominator. Every channel of a form that is not coefficients has its own, whether or not doubles hold
// those; several inputs and outputs have one denominator. Errors name the file.
std::vector<PoleGroup> pole_groups(const std::string& path, const AnyFilter& filter);

}  // namespace rtf
