// Algorithm 1: a and b to the spectrum, quotient, kernel. Double inside: there is no batch dimension to pay for it, and
// poles near the circle need it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/arguments.h"
#include "core/carver.h"
#include "core/fft.h"
#include "core/file_errors.h"
#include "core/polynomial.h"
#include "cpu/wrapped_kernel_lanes.h"
#include "rtf/kernel.h"
#include "rtf/workspace.h"

namespace rtf {

struct WrappedKernelPlan::Impl {
  const cpu::WrappedKernelLanes& simd;
  std::shared_ptr<const Fft<double>> fft;
  std::size_t tiles;

  Impl(std::size_t channels, std::size_t length, InstructionSet set)
      : simd(cpu::wrapped_kernel_lanes(set)),
        fft(get_fft<double>(FftKind::real, FftLanes::all, length, set)),
        tiles((channels + fft->lanes - 1) / fft->lanes) {
    if (simd.lanes != fft->lanes) fail(ErrorCode::unsupported, "wrapped_kernel", "this build mixes vectors of two sizes");
  }

  std::size_t row_space() const { return array_bytes<double>(FftRow<double>::elements(*fft)) / sizeof(double); }
  FftRow<double> row(double* space, std::size_t worker, std::size_t index) const {
    return {*fft, space + (3 * worker + index) * row_space()};
  }

  // Coefficients k = 1..order of one lane, folded modulo the length as the transform's points demand.
  void load_coefficients(const double* coefficients, std::size_t order, double leading, std::size_t lane,
                         double* z) const {
    z[lane] += leading;
    for (std::size_t k = 1; k <= order; ++k) z[k % fft->length * fft->lanes + lane] += coefficients[k - 1];
  }

  // The transforms of (1, a) and (0, b) of a tile of channels. Lanes past the last channel hold a = 1, b = 0.
  void load_spectra(const CoefficientsView& trained, std::size_t tile, FftRow<double>& a, FftRow<double>& b) const {
    std::fill_n(a.data, fft->elements, 0.0);
    std::fill_n(b.data, fft->elements, 0.0);
    for (std::size_t lane = 0; lane < fft->lanes; ++lane) {
      const std::size_t channel = tile * fft->lanes + lane;
      const std::size_t order = channel < trained.channels ? trained.order : 0;
      load_coefficients(order ? trained.denominator(channel) : nullptr, order, 1.0, lane, a.data);
      load_coefficients(order ? trained.numerator(channel) : nullptr, order, 0.0, lane, b.data);
    }
    a.forward();
    b.forward();
  }

  std::size_t lanes_of(std::size_t tile, std::size_t channels) const {
    return std::min(fft->lanes, channels - tile * fft->lanes);
  }
};

WrappedKernelPlan::WrappedKernelPlan(std::size_t channels_, std::size_t groups_, std::size_t order_,
                                     std::size_t length_)
    : channels(channels_), groups(groups_), order(order_), length(length_) {
  if (length == 0) fail(ErrorCode::argument, "wrapped_kernel", "length is 0; it must be at least 1");
  if (channels == 0 || groups == 0 || channels % groups != 0)
    fail(ErrorCode::argument, "wrapped_kernel", "{} groups do not divide {} channels", groups, channels);
  impl = std::make_shared<Impl>(channels, length, instruction_set());
}

std::size_t WrappedKernelPlan::workspace_bytes(const Executor& executor) const {
  return array_bytes<double>(3 * executor.workers() * impl->row_space()) +
         array_bytes<double>(impl->tiles * impl->fft->lanes) + array_bytes<double>(channels * order) +
         workspace_alignment;
}

namespace {

void check_coefficients(const WrappedKernelPlan& plan, const CoefficientsView& c) {
  if (c.channels != plan.channels || c.groups != plan.groups || c.order != plan.order)
    fail(ErrorCode::argument, "wrapped_kernel",
         "{} channels, {} groups, order {}; the plan is for {} channels, {} groups, order {}", c.channels, c.groups,
         c.order, plan.channels, plan.groups, plan.order);
}

// A below the rounding of its own transform has no digit left.
void check_denominators(const char* operation, const CoefficientsView& c, const double* smallest, std::size_t length) {
  for (std::size_t channel = 0; channel < c.channels; ++channel) {
    const double norm = 1 + l1_norm({c.denominator(channel), c.order});
    if (!std::isfinite(norm))
      fail(ErrorCode::argument, operation, "denominator {} has numbers that are not finite", c.group_of(channel));
    const double least = std::sqrt(smallest[channel]);
    if (!(least > std::numeric_limits<double>::epsilon() * norm))
      fail(ErrorCode::unstable, operation,
           "denominator {} vanishes (|A| = {:.3g}) at a {}-th root of unity, where Algorithm 1 divides by it; use "
           "another "
           "length or the exact kernel",
           c.group_of(channel), least, length);
  }
}

}  // namespace

template <class T>
void wrapped_kernel(const WrappedKernelPlan& plan, const CoefficientsView& trained, std::span<T> kernel,
                    std::span<std::byte> workspace, Executor& executor) {
  check_coefficients(plan, trained);
  check_count("wrapped_kernel", "the kernel", kernel.size(), plan.channels * plan.length);
  const auto& impl = *plan.impl;
  Carver carver(workspace, plan.workspace_bytes(executor) - workspace_alignment, "wrapped_kernel");
  double* space = carver.take<double>(3 * executor.workers() * impl.row_space());
  double* smallest = carver.take<double>(impl.tiles * impl.fft->lanes);
  const std::size_t lanes = impl.fft->lanes, length = plan.length;

  parallel_for(executor, impl.tiles, [&](std::size_t tile, std::size_t worker) {
    auto a = impl.row(space, worker, 0), b = impl.row(space, worker, 1);
    impl.load_spectra(trained, tile, a, b);
    impl.simd.divide(a.data, length, b.data, smallest + tile * lanes);
    b.backward();
    const double scale = 1.0 / static_cast<double>(length);
    for (std::size_t lane = 0; lane < impl.lanes_of(tile, plan.channels); ++lane) {
      const std::size_t channel = tile * lanes + lane;
      T* row = kernel.data() + channel * length;
      row[0] = static_cast<T>(b.data[lane] * scale + trained.h0[channel]);
      for (std::size_t t = 1; t < length; ++t) row[t] = static_cast<T>(b.data[t * lanes + lane] * scale);
    }
  });
  check_denominators("wrapped_kernel", trained, smallest, length);
  if (!all_finite<T>(kernel))
    fail(ErrorCode::argument, "wrapped_kernel", "the kernel overflows: coefficients are too large or not finite");
}

template <class T>
void wrapped_kernel_vjp(const WrappedKernelPlan& plan, const CoefficientsView& trained,
                        std::span<const T> kernel_gradient, std::span<double> a_gradient, std::span<double> b_gradient,
                        std::span<double> h0_gradient, std::span<std::byte> workspace, Executor& executor) {
  check_coefficients(plan, trained);
  check_count("wrapped_kernel_vjp", "kernel_gradient", kernel_gradient.size(), plan.channels * plan.length);
  check_count("wrapped_kernel_vjp", "a_gradient", a_gradient.size(), plan.groups * plan.order);
  check_count("wrapped_kernel_vjp", "b_gradient", b_gradient.size(), plan.channels * plan.order);
  check_count("wrapped_kernel_vjp", "h0_gradient", h0_gradient.size(), plan.channels);
  const auto& impl = *plan.impl;
  Carver carver(workspace, plan.workspace_bytes(executor) - workspace_alignment, "wrapped_kernel_vjp");
  double* space = carver.take<double>(3 * executor.workers() * impl.row_space());
  double* smallest = carver.take<double>(impl.tiles * impl.fft->lanes);
  double* a_each = carver.take<double>(plan.channels * plan.order);  // before the sum over a group
  const std::size_t lanes = impl.fft->lanes, length = plan.length, order = plan.order;

  parallel_for(executor, impl.tiles, [&](std::size_t tile, std::size_t worker) {
    auto a = impl.row(space, worker, 0), b = impl.row(space, worker, 1), g = impl.row(space, worker, 2);
    impl.load_spectra(trained, tile, a, b);
    const std::size_t valid = impl.lanes_of(tile, plan.channels);
    if (valid < lanes) std::fill_n(g.data, impl.fft->elements, 0.0);
    for (std::size_t lane = 0; lane < valid; ++lane) {
      const T* row = kernel_gradient.data() + (tile * lanes + lane) * length;
      for (std::size_t t = 0; t < length; ++t) g.data[t * lanes + lane] = row[t];
      h0_gradient[tile * lanes + lane] = row[0];
    }
    g.forward();
    impl.simd.divide_gradient(a.data, length, g.data, b.data, smallest + tile * lanes);
    g.backward();
    b.backward();
    const double scale = 1.0 / static_cast<double>(length);
    for (std::size_t lane = 0; lane < valid; ++lane) {
      const std::size_t channel = tile * lanes + lane;
      for (std::size_t k = 1; k <= order; ++k) {
        const std::size_t at = k % length * lanes + lane;
        b_gradient[channel * order + k - 1] = g.data[at] * scale;
        a_each[channel * order + k - 1] = b.data[at] * scale;
      }
    }
  });
  check_denominators("wrapped_kernel_vjp", trained, smallest, length);

  std::fill(a_gradient.begin(), a_gradient.end(), 0.0);
  for (std::size_t channel = 0; channel < plan.channels; ++channel)
    for (std::size_t k = 0; k < order; ++k)
      a_gradient[trained.group_of(channel) * order + k] += a_each[channel * order + k];
}

std::vector<double> wrapped_kernel(const TrainedTransferFunction& trained) {
  validate(trained, "wrapped_kernel");
  require_kernel_memory("wrapped_kernel", trained.channels, trained.length);
  const WrappedKernelPlan plan(trained.channels, trained.groups, trained.order, trained.length);
  Executor& executor = default_executor();
  const Workspace workspace(plan.workspace_bytes(executor));
  std::vector<double> kernel(trained.channels * trained.length);
  wrapped_kernel<double>(plan, trained, kernel, workspace, executor);
  return kernel;
}

CoefficientsGradient wrapped_kernel_vjp(const TrainedTransferFunction& trained,
                                        std::span<const double> kernel_gradient) {
  validate(trained, "wrapped_kernel_vjp");
  const WrappedKernelPlan plan(trained.channels, trained.groups, trained.order, trained.length);
  Executor& executor = default_executor();
  const Workspace workspace(plan.workspace_bytes(executor));
  CoefficientsGradient gradient{std::vector<double>(trained.a.size()), std::vector<double>(trained.b.size()),
                                std::vector<double>(trained.h0.size())};
  wrapped_kernel_vjp<double>(plan, trained, kernel_gradient, gradient.a, gradient.b, gradient.h0, workspace, executor);
  return gradient;
}

#define RTF_INSTANTIATE(T)                                                                                            \
  template void wrapped_kernel(const WrappedKernelPlan&, const CoefficientsView&, std::span<T>, std::span<std::byte>, \
                               Executor&);                                                                            \
  template void wrapped_kernel_vjp(const WrappedKernelPlan&, const CoefficientsView&, std::span<const T>,             \
                                   std::span<double>, std::span<double>, std::span<double>, std::span<std::byte>,     \
                                   Executor&);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
