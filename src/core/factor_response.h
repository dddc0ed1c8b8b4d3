// H of poles and zeros on the unit circle, from the numbers of the file: doubles do not hold the sections of slow ones.
#pragma once

#include <complex>
#include <vector>

#include "core/conjugate_pairs.h"
#include "rtf/forms.h"

namespace rtf {

class FactorResponse {
 public:
  // Of moderate gain: core/form_scale.h.
  FactorResponse(const ZeroPoleGain& zpk, const char* operation);

  // H without h0, and i d/d angle of its logarithm: nan at a zero or a pole, where H is 0 or infinite.
  struct Point {
    std::complex<double> product, log_slope;
  };
  Point at(double angle) const;

  std::complex<double> operator()(double angle) const { return at(angle).product + beside_; }

 private:
  std::vector<PairedValue> zeros_, poles_;
  double gain_, beside_;
};

}  // namespace rtf
