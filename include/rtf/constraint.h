// Maps from free numbers to denominators inside the stable region, and their gradients.
#pragma once

#include <span>
#include <vector>

namespace rtf {

// Release form: a = alpha / (sum |alpha| + |sigma| + 1e-6). Sum |a| < 1, so every pole is inside the circle.
std::vector<double> montel(std::span<const double> alpha, double sigma);

struct MontelGradient {
  std::vector<double> alpha;
  double sigma = 0;
};
MontelGradient montel_vjp(std::span<const double> alpha, double sigma, std::span<const double> gradient);

// Paper form: n + 1 free numbers divided by their l1 norm, of which the first n are kept.
std::vector<double> montel_paper(std::span<const double> alpha);
std::vector<double> montel_paper_vjp(std::span<const double> alpha, std::span<const double> gradient);

// Softmax form: n + 1 logits to the magnitudes |a_i|, the signs given; sum |a| < 1 with no division by a small norm.
std::vector<double> montel_softmax(std::span<const double> logits, std::span<const double> signs);
std::vector<double> montel_softmax_vjp(std::span<const double> logits, std::span<const double> signs,
                                       std::span<const double> gradient);

}  // namespace rtf
