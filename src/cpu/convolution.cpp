// Right-angle convolution. Multiplying sample t by e^{i pi t / 2m} makes an m-point transform convolve modulo z^m = i:
// what wraps around lands in the imaginary part, so the real part is the linear convolution and needs no padding.
#include "rtf/convolution.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/arguments.h"
#include "cpu/convolution_lanes.h"
#include "core/fft.h"
#include "core/workspace.h"

namespace rtf {
namespace {

// Rows of this many sequences share one sum of the kernel's gradient: fixed, so that threads cannot change the order.
constexpr std::size_t batch_tile = 8;

std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

}  // namespace

template <class T>
struct ConvolutionPlan<T>::Impl {
  const cpu::ConvolutionLanes<T>& simd;
  std::shared_ptr<const Fft<T>> fft;
  std::vector<T> weights;
  std::size_t kernels;       // 1, or 2 when bidirectional
  std::size_t used;          // kernel samples that can reach an output
  std::size_t tiles;         // of channels
  std::size_t batch_tiles;   // of sequences

  Impl(std::size_t batch, std::size_t length, std::size_t channels, std::size_t kernel_length, Direction direction,
       InstructionSet set)
      : simd(cpu::convolution_lanes<T>(set)),
        fft(get_fft<T>(FftKind::complex, FftLanes::all, good_size(std::max<std::size_t>(length, 1)),
                            set)),
        kernels(direction == Direction::bidirectional ? 2 : 1),
        used(std::min(length, kernel_length)),
        tiles(ceil_div(channels, fft->lanes)),
        batch_tiles(ceil_div(batch, batch_tile)) {
    const std::size_t m = fft->length;
    weights.resize(2 * m);
    for (std::size_t t = 0; t < m; ++t) {
      const double angle = std::numbers::pi * static_cast<double>(t) / (2.0 * static_cast<double>(m));
      weights[2 * t] = static_cast<T>(std::cos(angle));
      weights[2 * t + 1] = static_cast<T>(std::sin(angle));
    }
  }

  template <class S>
  cpu::LaneRows<S> rows(const Signal<S>& one, std::size_t tile, std::size_t channels) const {
    const std::size_t first = tile * fft->lanes;
    return {one.at(0, 0, first), one.length_stride, one.channel_stride, std::min(fft->lanes, channels - first)};
  }

  template <class S>
  cpu::LaneRows<S> kernel_rows(S* kernel, std::size_t tile, std::size_t channels, std::size_t kernel_length) const {
    const std::size_t first = tile * fft->lanes;
    return {kernel + first * kernel_length, 1, static_cast<std::ptrdiff_t>(kernel_length),
            std::min(fft->lanes, channels - first)};
  }

  // The spectrum of every kernel, already divided by the transform's length.
  void spectra(const ConvolutionPlan<T>& plan, const T* kernel, T* out, T* space, Executor& executor) const {
    const std::size_t m = fft->length;
    parallel_for(executor, tiles, [&](std::size_t tile, std::size_t worker) {
      FftRow<T> z(*fft, space + worker * row_space());
      simd.load(kernel_rows(kernel, tile, plan.channels, plan.kernel_length), used, m, weights.data(), z.data);
      if (kernels == 2) {
        const T* backward = kernel + plan.channels * plan.kernel_length;
        simd.load_backward(kernel_rows(backward, tile, plan.channels, plan.kernel_length), backward_count(plan), m,
                           weights.data(), z.data);
      }
      z.forward();
      simd.scale(z.data, T(1) / static_cast<T>(m), m, out + tile * fft->elements);
    });
  }

  // Elements that each worker transforms one row group in; a multiple of the alignment.
  std::size_t row_space() const { return array_bytes<T>(FftRow<T>::elements(*fft)) / sizeof(T); }

  // Lags 1 <= m < backward_count use k_b[m - 1].
  std::size_t backward_count(const ConvolutionPlan<T>& plan) const {
    return std::min(plan.length, plan.kernel_length + 1);
  }
};

template <class T>
ConvolutionPlan<T>::ConvolutionPlan(std::size_t batch_, std::size_t length_, std::size_t channels_,
                                    std::size_t kernel_length_, Direction direction_)
    : batch(batch_),
      length(length_),
      channels(channels_),
      kernel_length(kernel_length_),
      direction(direction_),
      impl(std::make_shared<Impl>(batch_, length_, channels_, kernel_length_, direction_, instruction_set())) {}

template <class T>
std::size_t ConvolutionPlan<T>::workspace_bytes(const Executor& executor) const {
  return array_bytes<T>(impl->tiles * impl->fft->elements) +
         array_bytes<T>(executor.workers() * impl->row_space()) + workspace_alignment;
}

template <class T>
std::size_t ConvolutionPlan<T>::vjp_workspace_bytes(const Executor& executor) const {
  return array_bytes<T>(impl->tiles * impl->fft->elements) +
         array_bytes<T>(impl->batch_tiles * impl->tiles * impl->fft->elements) +
         array_bytes<T>(2 * executor.workers() * impl->row_space()) + workspace_alignment;
}

template <class T>
void convolve(const ConvolutionPlan<T>& plan, Signal<const std::type_identity_t<T>> u,
              std::span<const std::type_identity_t<T>> kernel, Signal<std::type_identity_t<T>> y, Offsets offsets,
              std::span<std::byte> workspace, Executor& executor) {
  const auto& impl = *plan.impl;
  check_sequences("convolve", u, offsets, plan.batch, plan.length, plan.channels);
  check_signal("convolve", "y", y, u.batch, u.length, u.channels);
  check_count("convolve", "the kernel", kernel.size(), impl.kernels * plan.channels * plan.kernel_length);
  const std::size_t m = impl.fft->length;
  Carver carver(workspace, plan.workspace_bytes(executor) - workspace_alignment, "convolve");
  T* spectra = carver.take<T>(impl.tiles * impl.fft->elements);
  T* space = carver.take<T>(executor.workers() * impl.row_space());

  impl.spectra(plan, kernel.data(), spectra, space, executor);
  parallel_for(executor, plan.batch * impl.tiles, [&](std::size_t task, std::size_t worker) {
    const std::size_t tile = task % impl.tiles, s = task / impl.tiles;
    const auto in = sequence(u, offsets, s);
    const auto out = sequence(y, offsets, s);
    FftRow<T> z(*impl.fft, space + worker * impl.row_space());
    impl.simd.load(impl.rows(in, tile, plan.channels), in.length, m, impl.weights.data(), z.data);
    z.forward();
    impl.simd.multiply(spectra + tile * impl.fft->elements, m, z.data);
    z.backward();
    impl.simd.store(z.data, in.length, impl.weights.data(), impl.rows(out, tile, plan.channels));
  });
}

template <class T>
void convolve_vjp(const ConvolutionPlan<T>& plan, Signal<const std::type_identity_t<T>> u,
                  std::span<const std::type_identity_t<T>> kernel, Signal<const std::type_identity_t<T>> y_gradient,
                  Signal<std::type_identity_t<T>> u_gradient, std::span<std::type_identity_t<T>> kernel_gradient,
                  Offsets offsets, std::span<std::byte> workspace, Executor& executor) {
  const auto& impl = *plan.impl;
  const std::size_t m = impl.fft->length, elements = impl.fft->elements, tiles = impl.tiles;
  check_sequences("convolve_vjp", u, offsets, plan.batch, plan.length, plan.channels);
  check_signal("convolve_vjp", "y_gradient", y_gradient, u.batch, u.length, u.channels);
  check_signal("convolve_vjp", "u_gradient", u_gradient, u.batch, u.length, u.channels);
  check_count("convolve_vjp", "the kernel", kernel.size(), impl.kernels * plan.channels * plan.kernel_length);
  check_count("convolve_vjp", "kernel_gradient", kernel_gradient.size(), kernel.size());
  Carver carver(workspace, plan.vjp_workspace_bytes(executor) - workspace_alignment, "convolve_vjp");
  T* spectra = carver.take<T>(tiles * elements);
  T* sums = carver.take<T>(impl.batch_tiles * tiles * elements);
  T* space = carver.take<T>(2 * executor.workers() * impl.row_space());

  impl.spectra(plan, kernel.data(), spectra, space, executor);
  parallel_for(executor, impl.batch_tiles * tiles, [&](std::size_t task, std::size_t worker) {
    const std::size_t tile = task % tiles, first = task / tiles * batch_tile;
    T* sum = sums + task * elements;
    std::fill_n(sum, elements, T(0));
    FftRow<T> x(*impl.fft, space + 2 * worker * impl.row_space());
    FftRow<T> g(*impl.fft, space + (2 * worker + 1) * impl.row_space());
    for (std::size_t s = first; s < std::min(first + batch_tile, plan.batch); ++s) {
      const auto in = sequence(u, offsets, s);
      const auto dy = sequence(y_gradient, offsets, s);
      const auto du = sequence(u_gradient, offsets, s);
      impl.simd.load(impl.rows(in, tile, plan.channels), in.length, m, impl.weights.data(), x.data);
      impl.simd.load(impl.rows(dy, tile, plan.channels), in.length, m, impl.weights.data(), g.data);
      x.forward();
      g.forward();
      impl.simd.correlate(x.data, spectra + tile * elements, m, g.data, sum);
      g.backward();
      impl.simd.store(g.data, in.length, impl.weights.data(), impl.rows(du, tile, plan.channels));
    }
  });

  // Samples of the kernel that no output sees have gradient zero.
  std::fill(kernel_gradient.begin(), kernel_gradient.end(), T(0));
  parallel_for(executor, tiles, [&](std::size_t tile, std::size_t worker) {
    FftRow<T> z(*impl.fft, space + worker * impl.row_space());
    std::fill_n(z.data, elements, T(0));
    for (std::size_t b = 0; b < impl.batch_tiles; ++b) impl.simd.add(sums + (b * tiles + tile) * elements, m, z.data);
    impl.simd.scale(z.data, T(1) / static_cast<T>(m), m, z.data);
    z.backward();
    impl.simd.store(z.data, impl.used, impl.weights.data(),
                    impl.kernel_rows(kernel_gradient.data(), tile, plan.channels, plan.kernel_length));
    if (impl.kernels == 2)
      impl.simd.store_backward(z.data, impl.backward_count(plan), m, impl.weights.data(),
                               impl.kernel_rows(kernel_gradient.data() + plan.channels * plan.kernel_length, tile,
                                                plan.channels, plan.kernel_length));
  });
}

template <class T>
void convolve(Signal<const std::type_identity_t<T>> u, std::span<const T> kernel, Signal<std::type_identity_t<T>> y,
              Direction direction, Offsets offsets) {
  const std::size_t kernels = direction == Direction::bidirectional ? 2 : 1;
  if (u.channels == 0 || kernel.size() % (kernels * u.channels) != 0)
    fail(ErrorCode::argument, "convolve", "the kernel has {} values, which is no multiple of {} for {} channels",
         kernel.size(), kernels * u.channels, u.channels);
  const ConvolutionPlan<T> plan(sequence_count(u.batch, offsets), longest_sequence(u.length, offsets), u.channels,
                                kernel.size() / (kernels * u.channels), direction);
  Executor& executor = default_executor();
  OwnWorkspace workspace(plan.workspace_bytes(executor));
  convolve(plan, u, kernel, y, offsets, workspace.span(), executor);
}

#define RTF_INSTANTIATE(T)                                                                                            \
  template class ConvolutionPlan<T>;                                                                                  \
  template void convolve(const ConvolutionPlan<T>&, Signal<const T>, std::span<const T>, Signal<T>, Offsets,          \
                         std::span<std::byte>, Executor&);                                                            \
  template void convolve_vjp(const ConvolutionPlan<T>&, Signal<const T>, std::span<const T>, Signal<const T>,         \
                             Signal<T>, std::span<T>, Offsets, std::span<std::byte>, Executor&);                      \
  template void convolve<T>(Signal<const T>, std::span<const T>, Signal<T>, Direction, Offsets);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
