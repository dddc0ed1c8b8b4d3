// The doubles that hold a fit best: rounded one by one, each rounding made up for by those that follow.
#pragma once

#include <Eigen/Core>
#include <optional>

#include "core/fit_denominator.h"

namespace rtf {

// From a fit that is right but for the rounding of its coefficients to one whose coefficients are rounded together, or
// none where that would take long or gains nothing. Poles close together amplify the rounding of a denominator by many
// decades, while the samples still determine it.
std::optional<FitPoint> rounded_together(const KernelTarget& target, const FitPoint& start);

}  // namespace rtf
