// Points of the unit circle in 106 bits.
#pragma once

#include "core/roots.h"

namespace rtf {

// e^{i angle}: next to a pole the rounding of sine and cosine to doubles would count. Half an ulp away from a multiple
// of pi / 2 that multiple is meant: there poles on an axis are met, and H may be real. Beyond 8 in modulus, in double.
WideComplex wide_point(double angle);

// How near a multiple of pi / 2 an angle is taken for it: half an ulp, and 1e-8 where an ulp is more than that.
double angle_rounding(double angle);

}  // namespace rtf
