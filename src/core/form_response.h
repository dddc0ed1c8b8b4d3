// H at one point from the numbers of a form itself, in 106 bits.
#pragma once

#include <complex>
#include <span>
#include <variant>
#include <vector>

#include "core/conjugate_pairs.h"
#include "core/roots.h"
#include "rtf/conversion.h"

namespace rtf {

class FormResponse {
 public:
  // Valid, and of numbers that products of 106 bits have room for: moderate() in core/form_scale.h.
  explicit FormResponse(const System& system);

  WideComplex operator()(const WideComplex& z) const;

 private:
  // Of one input and one output, in coordinates that make determinants cheap.
  struct Hessenberg {
    std::vector<DoubleDouble> A, B, C;
    DoubleDouble D;
  };
  struct Product {
    std::vector<PairedValue> zeros, poles;
    double gain, beside;
  };
  struct Sum {
    std::vector<PairedValue> poles;
    std::vector<std::complex<double>> residues;  // one for each of them
    double beside;
  };
  struct Ratio {  // of polynomials in w = 1/z, one after the other
    std::vector<std::vector<double>> numerators, denominators;
    double beside;
  };
  using Source = std::variant<Hessenberg, Product, Sum, Ratio>;

  static Source source_of(const System& system);

  Source source_;
};

// The largest difference of two responses over the largest |H| of the first, next to those of these poles, largest
// modulus first, that are nearer to the circle than to die within `length` samples: what kernels of that length do not
// show. 0 where there is no such pole. A few angles for each of at most 32 poles: far less work than more samples.
double response_error(const FormResponse& expected, const FormResponse& actual,
                      std::span<const std::complex<double>> poles, std::size_t length);

}  // namespace rtf
