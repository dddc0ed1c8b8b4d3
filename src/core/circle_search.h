// The largest value of a rational function on the unit circle, known by its values and poles alone.
#pragma once

#include <complex>
#include <functional>
#include <span>
#include <vector>

#include "rtf/executor.h"

namespace rtf {

// Angles from 0 to pi between which a function with these poles, and not many more zeros, does not turn unseen.
std::vector<double> search_angles(std::span<const std::complex<double>> poles);

// The largest value(angle), which is |F(e^{i angle})| or a norm of it: every local maximum of the values at `angles`
// that could be the largest is taken to its top.
double largest_on_circle(const std::function<double(double)>& value, std::span<const double> angles,
                         Executor& executor);

}  // namespace rtf
