#include "rtf/constraint.h"

#include <algorithm>
#include <cmath>

#include "core/check_finite.h"
#include "core/polynomial.h"

namespace rtf {
namespace {

constexpr double release_margin = 1e-6;

double sign(double x) { return static_cast<double>(x > 0) - static_cast<double>(x < 0); }

double release_norm(std::span<const double> alpha, double sigma, const char* operation) {
  check_finite(operation, "alpha", alpha);
  check_finite(operation, "sigma", {&sigma, 1});
  return l1_norm(alpha) + std::abs(sigma) + release_margin;
}

double paper_norm(std::span<const double> alpha, const char* operation) {
  check_finite(operation, "alpha", alpha);
  if (alpha.empty()) fail(ErrorCode::argument, operation, "alpha is empty; order + 1 numbers are needed");
  const double norm = l1_norm(alpha);
  if (norm == 0) fail(ErrorCode::argument, operation, "alpha is all zero and cannot be divided by its l1 norm");
  return norm;
}

// (gradient . alpha) / norm over the numbers that the map keeps: what the norm itself sends back.
double through_norm(std::span<const double> alpha, std::span<const double> gradient, double norm) {
  double sum = 0;
  for (std::size_t k = 0; k < gradient.size(); ++k) sum += gradient[k] * (alpha[k] / norm);
  return sum;
}

std::vector<double> softmax(std::span<const double> logits, std::span<const double> signs, const char* operation) {
  check_finite(operation, "logits", logits);
  if (logits.empty()) fail(ErrorCode::argument, operation, "logits is empty; order + 1 numbers are needed");
  check_count(operation, "signs", signs.size(), logits.size() - 1);
  for (std::size_t k = 0; k < signs.size(); ++k)
    if (std::abs(signs[k]) != 1) fail(ErrorCode::argument, operation, "signs[{}] is {}, expected 1 or -1", k, signs[k]);
  // Less the largest, so that no exponential overflows.
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.size());
  double sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) sum += p[k] = std::exp(logits[k] - largest);
  for (double& value : p) value /= sum;
  return p;
}

}  // namespace

std::vector<double> montel(std::span<const double> alpha, double sigma) {
  const double norm = release_norm(alpha, sigma, "montel");
  std::vector<double> a(alpha.begin(), alpha.end());
  for (double& value : a) value /= norm;
  return a;
}

MontelGradient montel_vjp(std::span<const double> alpha, double sigma, std::span<const double> gradient) {
  const double norm = release_norm(alpha, sigma, "montel_vjp");
  check_count("montel_vjp", "gradient", gradient.size(), alpha.size());
  const double shared = through_norm(alpha, gradient, norm);
  MontelGradient result;
  result.alpha.resize(alpha.size());
  for (std::size_t k = 0; k < alpha.size(); ++k) result.alpha[k] = (gradient[k] - sign(alpha[k]) * shared) / norm;
  result.sigma = -sign(sigma) * shared / norm;
  return result;
}

std::vector<double> montel_paper(std::span<const double> alpha) {
  const double norm = paper_norm(alpha, "montel_paper");
  std::vector<double> a(alpha.begin(), alpha.end() - 1);
  for (double& value : a) value /= norm;
  return a;
}

std::vector<double> montel_paper_vjp(std::span<const double> alpha, std::span<const double> gradient) {
  const double norm = paper_norm(alpha, "montel_paper_vjp");
  check_count("montel_paper_vjp", "gradient", gradient.size(), alpha.size() - 1);
  const double shared = through_norm(alpha, gradient, norm);
  std::vector<double> result(alpha.size());
  for (std::size_t k = 0; k < alpha.size(); ++k) {
    const double direct = k < gradient.size() ? gradient[k] : 0.0;
    result[k] = (direct - sign(alpha[k]) * shared) / norm;
  }
  return result;
}

std::vector<double> montel_softmax(std::span<const double> logits, std::span<const double> signs) {
  std::vector<double> a = softmax(logits, signs, "montel_softmax");
  a.pop_back();
  for (std::size_t k = 0; k < a.size(); ++k) a[k] *= signs[k];
  return a;
}

std::vector<double> montel_softmax_vjp(std::span<const double> logits, std::span<const double> signs,
                                       std::span<const double> gradient) {
  std::vector<double> p = softmax(logits, signs, "montel_softmax_vjp");
  check_count("montel_softmax_vjp", "gradient", gradient.size(), signs.size());
  double mean = 0;
  for (std::size_t k = 0; k < gradient.size(); ++k) mean += gradient[k] * signs[k] * p[k];
  for (std::size_t k = 0; k < p.size(); ++k) {
    const double direct = k < gradient.size() ? gradient[k] * signs[k] : 0.0;
    p[k] *= direct - mean;
  }
  return p;
}

}  // namespace rtf
