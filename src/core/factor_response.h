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

  // H without h0, and its group delay: nan at a zero or a pole, and where no more than the rounding of numbers lies
  // between.
  struct Point {
    std::complex<double> product;
    double delay;
  };
  Point at(double angle, bool with_delay) const;

  std::complex<double> operator()(double angle) const { return at(angle, false).product + beside_; }

 private:
  std::vector<PairedValue> zeros_, poles_;
  double gain_, beside_;
};

}  // namespace rtf
