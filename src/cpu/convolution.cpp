// Right-angle convolution. Multiplying sample t by e^{i pi t / 2m} makes an m-point transform convolve modulo z^m = i:
// what wraps around lands in the imaginary part, so the real part is the linear convolution and needs no padding.
#include "rtf/convolution.h"

#include <algorithm>
#include <vector>

#include "core/arguments.h"
#include "core/carver.h"
#include "core/fft.h"
#include "cpu/convolution_lanes.h"
#include "rtf/workspace.h"

namespace rtf {
namespace {

// Rows of this many sequences share one sum of the kernel's gradient: fixed, so that threads cannot change the order.
constexpr std::size_t batch_tile = 8;

std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// Lengths that can be split are, so that their transforms stay in the cache. Of 1,024 and 2,048 points all that a
// butterfly touches falls into one set of the first-level cache: 35/32 of them, with factors 5 and 7, is measured to be
// faster.
std::size_t transform_size(std::size_t length) {
  constexpr std::size_t split = cpu::convolution_split;
  if (length < 64 * split) return good_size(std::max<std::size_t>(length, 1));
  const std::size_t part = good_size(ceil_div(length, split));
  return split * (part == 1024 || part == 2048 ? part / 32 * 35 : part);
}

// A row group of whole vectors should leave half of a second-level cache of 1 MB to the rest.
FftLanes lanes_for(std::size_t size, InstructionSet set) {
  constexpr std::size_t vector_bytes = 64;
  return set == InstructionSet::v4 && 2 * size * vector_bytes > 512 * 1024 ? FftLanes::half : FftLanes::all;
}

}  // namespace

template <class T>
struct ConvolutionPlan<T>::Impl {
  const cpu::RightAngle<T> grid;
  const cpu::ConvolutionLanes<T>& simd;
  const std::shared_ptr<const Fft<T>> fft;  // of one part of the grid
  const std::size_t channels, kernel_length;
  const std::size_t kernels;      // 1, or 2 when bidirectional
  const std::size_t used;         // kernel samples that can reach an output
  const std::size_t longest_lag;  // of the backward kernel: one less than the length
  const std::size_t tiles;        // of channels
  const std::size_t
      together;  // tiles that one task takes in turn: those of one cache line, which threads should not share
  const std::size_t batch_tiles;  // of sequences
  const std::size_t elements;     // of T in the spectrum of a tile

  Impl(std::size_t batch, std::size_t length, std::size_t channels_, std::size_t kernel_length_, Direction direction,
       InstructionSet set)
      : grid(transform_size(length)),
        simd(cpu::convolution_lanes<T>(set, lanes_for(grid.size, set))),
        fft(get_fft<T>(FftKind::complex, lanes_for(grid.size, set), grid.part, set)),
        channels(channels_),
        kernel_length(kernel_length_),
        kernels(direction == Direction::bidirectional ? 2 : 1),
        used(std::min(length, kernel_length)),
        longest_lag(length > 0 ? length - 1 : 0),
        tiles(ceil_div(channels, fft->lanes)),
        together(std::max<std::size_t>(1, 64 / (fft->lanes * sizeof(T)))),
        batch_tiles(ceil_div(batch, batch_tile)),
        elements(2 * grid.size * fft->lanes) {
    if (simd.lanes != fft->lanes) fail(ErrorCode::unsupported, "convolve", "this build mixes vectors of two sizes");
    if (channels == 0) fail(ErrorCode::argument, "convolve", "channels is 0; it must be at least 1");
  }

  // What a worker transforms one row group in: its spectrum, and room for one part's transform.
  struct Row {
    T *z, *other, *buffer;
  };
  std::size_t row_space() const { return array_bytes<T>(elements + fft->elements + fft->buffer) / sizeof(T); }
  Row row(T* space, std::size_t index) const {
    T* z = space + index * row_space();
    return {z, z + elements, z + elements + fft->elements};
  }

  // Every part forward, through `change`, which gets its place in the spectrum and its transform, and back into z.
  template <class Change>
  void through_spectrum(const Row& at, Change&& change) const {
    for (std::size_t part = 0; part < grid.split; ++part) {
      T* data = at.z + part * fft->elements;
      T* spectrum = fft->forward(data, at.other, at.buffer);
      change(part * fft->elements, spectrum);
      const T* result = fft->backward(spectrum, spectrum == data ? at.other : data, at.buffer);
      if (result != data) std::copy_n(result, fft->elements, data);
    }
  }

  template <class S>
  cpu::LaneRows<S> rows(const Signal<S>& one, std::size_t tile) const {
    const std::size_t first = tile * fft->lanes;
    return {one.at(0, 0, first), one.length_stride, one.channel_stride, std::min(fft->lanes, channels - first)};
  }

  template <class S>
  cpu::KernelRows<S> kernel_rows(S* kernel, std::size_t tile) const {
    const std::size_t first = tile * fft->lanes;
    const cpu::LaneRows<S> forward{kernel + first * kernel_length, 1, static_cast<std::ptrdiff_t>(kernel_length),
                                   std::min(fft->lanes, channels - first)};
    cpu::LaneRows<S> backward = forward;
    backward.data = kernels == 2 ? forward.data + channels * kernel_length : nullptr;
    return {forward, backward, used, std::min(longest_lag, kernel_length)};
  }

  // The spectrum of every kernel, already divided by the transform's length.
  void spectra(const T* kernel, T* out, T* space, Executor& executor) const {
    parallel_for(executor, tiles, [&](std::size_t tile, std::size_t worker) {
      const Row at = row(space, worker);
      simd.load_kernel(kernel_rows(kernel, tile), grid, at.z);
      for (std::size_t part = 0; part < grid.split; ++part)
        simd.scale(fft->forward(at.z + part * fft->elements, at.other, at.buffer), T(1) / static_cast<T>(grid.size),
                   grid.part, out + tile * elements + part * fft->elements);
    });
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
  return array_bytes<T>(impl->tiles * impl->elements) + array_bytes<T>(executor.workers() * impl->row_space()) +
         workspace_alignment;
}

template <class T>
std::size_t ConvolutionPlan<T>::vjp_workspace_bytes(const Executor& executor) const {
  return array_bytes<T>(impl->tiles * impl->elements) +
         array_bytes<T>(impl->batch_tiles * impl->tiles * impl->elements) +
         array_bytes<T>(2 * executor.workers() * impl->row_space()) + workspace_alignment;
}

template <class T>
struct KernelSpectrum<T>::Impl {
  std::size_t elements;  // what the plan's tiles hold, to tell another plan's spectrum
  Workspace spectra;
  const T* data() const { return reinterpret_cast<const T*>(spectra.data()); }
};

template <class T>
KernelSpectrum<T>::KernelSpectrum(const ConvolutionPlan<T>& plan, std::span<const std::type_identity_t<T>> kernel) {
  check_count("KernelSpectrum", "the kernel", kernel.size(), plan.impl->kernels * plan.channels * plan.kernel_length);
  Executor& executor = default_executor();
  auto made = std::make_shared<Impl>();
  made->elements = plan.impl->elements;
  made->spectra = Workspace(plan.impl->tiles * plan.impl->elements * sizeof(T));
  const Workspace space(executor.workers() * plan.impl->row_space() * sizeof(T));
  plan.impl->spectra(kernel.data(), reinterpret_cast<T*>(made->spectra.data()), reinterpret_cast<T*>(space.data()),
                     executor);
  impl = std::move(made);
}

namespace {

std::size_t valid_length(const Sequences& sequences, std::size_t s, std::size_t length) {
  return sequences.lengths.empty() ? length : sequences.lengths[s];
}

void check_lengths(const char* operation, const Sequences& sequences, std::size_t batch, std::size_t length) {
  if (sequences.lengths.empty()) return;
  check_count(operation, "lengths", sequences.lengths.size(), batch);
  for (std::size_t s = 0; s < batch; ++s)
    if (sequences.lengths[s] > length)
      fail(ErrorCode::argument, operation, "lengths[{}] is {}; the sequences have {} samples", s, sequences.lengths[s],
           length);
}

template <class T>
void convolve_spectra(const ConvolutionPlan<T>& plan, Signal<const T> u, const T* spectra, Signal<T> y,
                      const Sequences& sequences, T* space, Executor& executor) {
  const auto& impl = *plan.impl;
  const std::size_t spans = ceil_div(impl.tiles, impl.together);
  parallel_for(executor, plan.batch * spans, [&](std::size_t task, std::size_t worker) {
    const std::size_t first = task % spans * impl.together, s = task / spans;
    const auto in = sequence(u, sequences.offsets, s);
    const auto out = sequence(y, sequences.offsets, s);
    const std::size_t count = valid_length(sequences, s, in.length);
    const auto at = impl.row(space, worker);
    for (std::size_t tile = first; tile < std::min(first + impl.together, impl.tiles); ++tile) {
      impl.simd.load(impl.rows(in, tile), count, impl.grid, at.z);
      impl.through_spectrum(at, [&](std::size_t place, T* spectrum) {
        impl.simd.multiply(spectra + tile * impl.elements + place, impl.grid.part, spectrum);
      });
      impl.simd.store(at.z, in.length, impl.grid, impl.rows(out, tile));
    }
  });
}

}  // namespace

template <class T>
void convolve(const ConvolutionPlan<T>& plan, Signal<const std::type_identity_t<T>> u,
              std::span<const std::type_identity_t<T>> kernel, Signal<std::type_identity_t<T>> y,
              const Sequences& sequences, std::span<std::byte> workspace, Executor& executor) {
  const auto& impl = *plan.impl;
  check_sequences("convolve", u, sequences.offsets, plan.batch, plan.length, plan.channels);
  check_lengths("convolve", sequences, plan.batch, u.length);
  check_signal("convolve", "y", y, u.batch, u.length, u.channels);
  check_count("convolve", "the kernel", kernel.size(), impl.kernels * plan.channels * plan.kernel_length);
  Carver carver(workspace, plan.workspace_bytes(executor) - workspace_alignment, "convolve");
  T* spectra = carver.take<T>(impl.tiles * impl.elements);
  T* space = carver.take<T>(executor.workers() * impl.row_space());
  impl.spectra(kernel.data(), spectra, space, executor);
  convolve_spectra<T>(plan, u, spectra, y, sequences, space, executor);
}

template <class T>
void convolve(const ConvolutionPlan<T>& plan, Signal<const std::type_identity_t<T>> u, const KernelSpectrum<T>& kernel,
              Signal<std::type_identity_t<T>> y, const Sequences& sequences, std::span<std::byte> workspace,
              Executor& executor) {
  check_sequences("convolve", u, sequences.offsets, plan.batch, plan.length, plan.channels);
  check_lengths("convolve", sequences, plan.batch, u.length);
  check_signal("convolve", "y", y, u.batch, u.length, u.channels);
  check_count("convolve", "the kernel's spectrum", kernel.impl->spectra.size() / sizeof(T),
              plan.impl->tiles * plan.impl->elements);
  check_count("convolve", "a tile of the kernel's spectrum", kernel.impl->elements, plan.impl->elements);
  Carver carver(workspace, plan.workspace_bytes(executor) - workspace_alignment, "convolve");
  T* space = carver.take<T>(executor.workers() * plan.impl->row_space());
  convolve_spectra<T>(plan, u, kernel.impl->data(), y, sequences, space, executor);
}

template <class T>
void convolve_vjp(const ConvolutionPlan<T>& plan, Signal<const std::type_identity_t<T>> u,
                  std::span<const std::type_identity_t<T>> kernel, Signal<const std::type_identity_t<T>> y_gradient,
                  Signal<std::type_identity_t<T>> u_gradient, std::span<std::type_identity_t<T>> kernel_gradient,
                  const Sequences& sequences, std::span<std::byte> workspace, Executor& executor) {
  const auto& impl = *plan.impl;
  const std::size_t elements = impl.elements, tiles = impl.tiles, part = impl.grid.part;
  check_sequences("convolve_vjp", u, sequences.offsets, plan.batch, plan.length, plan.channels);
  check_lengths("convolve_vjp", sequences, plan.batch, u.length);
  check_signal("convolve_vjp", "y_gradient", y_gradient, u.batch, u.length, u.channels);
  check_signal("convolve_vjp", "u_gradient", u_gradient, u.batch, u.length, u.channels);
  check_count("convolve_vjp", "the kernel", kernel.size(), impl.kernels * plan.channels * plan.kernel_length);
  check_count("convolve_vjp", "kernel_gradient", kernel_gradient.size(), kernel.size());
  Carver carver(workspace, plan.vjp_workspace_bytes(executor) - workspace_alignment, "convolve_vjp");
  T* spectra = carver.take<T>(tiles * elements);
  T* sums = carver.take<T>(impl.batch_tiles * tiles * elements);
  T* space = carver.take<T>(2 * executor.workers() * impl.row_space());

  impl.spectra(kernel.data(), spectra, space, executor);
  // A task takes as many tiles as leave two tasks to each worker: neighbouring tiles share the pages of a sequence.
  const std::size_t span = std::clamp(impl.batch_tiles * tiles / (2 * executor.workers()),
                                      std::min(impl.together, tiles), std::max<std::size_t>(tiles, 1));
  const std::size_t spans = ceil_div(tiles, span);
  parallel_for(executor, impl.batch_tiles * spans, [&](std::size_t task, std::size_t worker) {
    const std::size_t first_tile = task % spans * span, last_tile = std::min(first_tile + span, tiles);
    const std::size_t batch_index = task / spans, first = batch_index * batch_tile;
    std::fill_n(sums + (batch_index * tiles + first_tile) * elements, (last_tile - first_tile) * elements, T(0));
    const auto x = impl.row(space, 2 * worker), g = impl.row(space, 2 * worker + 1);
    for (std::size_t s = first; s < std::min(first + batch_tile, plan.batch); ++s) {
      const auto in = sequence(u, sequences.offsets, s);
      const auto dy = sequence(y_gradient, sequences.offsets, s);
      const auto du = sequence(u_gradient, sequences.offsets, s);
      const std::size_t count = valid_length(sequences, s, in.length);
      for (std::size_t tile = first_tile; tile < last_tile; ++tile) {
        impl.simd.load(impl.rows(in, tile), count, impl.grid, x.z);
        impl.simd.load(impl.rows(dy, tile), in.length, impl.grid, g.z);
        T* sum = sums + (batch_index * tiles + tile) * elements;
        impl.through_spectrum(g, [&](std::size_t place, T* spectrum) {
          const T* input = impl.fft->forward(x.z + place, x.other, x.buffer);
          impl.simd.correlate(input, spectra + tile * elements + place, part, spectrum, sum + place);
        });
        impl.simd.store(g.z, count, impl.grid, impl.rows(du, tile));
        const auto rest = impl.rows(du, tile);
        for (std::size_t t = count; t < in.length; ++t)
          for (std::size_t lane = 0; lane < rest.channels; ++lane) *rest.at(t, lane) = T(0);
      }
    }
  });

  // Samples of the kernel that no output sees have gradient zero.
  std::fill(kernel_gradient.begin(), kernel_gradient.end(), T(0));
  parallel_for(executor, tiles, [&](std::size_t tile, std::size_t worker) {
    const auto at = impl.row(space, worker);
    std::fill_n(at.z, elements, T(0));
    for (std::size_t b = 0; b < impl.batch_tiles; ++b)
      impl.simd.add(sums + (b * tiles + tile) * elements, impl.grid.size, at.z);
    impl.simd.scale(at.z, T(1) / static_cast<T>(impl.grid.size), impl.grid.size, at.z);
    for (std::size_t place = 0; place < elements; place += impl.fft->elements) {
      T* data = at.z + place;
      const T* result = impl.fft->backward(data, at.other, at.buffer);
      if (result != data) std::copy_n(result, impl.fft->elements, data);
    }
    impl.simd.store_kernel(at.z, impl.grid, impl.kernel_rows(kernel_gradient.data(), tile));
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
  const Workspace workspace(plan.workspace_bytes(executor));
  convolve(plan, u, kernel, y, offsets, workspace, executor);
}

#define RTF_INSTANTIATE(T)                                                                                         \
  template class ConvolutionPlan<T>;                                                                               \
  template class KernelSpectrum<T>;                                                                                \
  template void convolve(const ConvolutionPlan<T>&, Signal<const T>, const KernelSpectrum<T>&, Signal<T>,          \
                         const Sequences&, std::span<std::byte>, Executor&);                                       \
  template void convolve(const ConvolutionPlan<T>&, Signal<const T>, std::span<const T>, Signal<T>,                \
                         const Sequences&, std::span<std::byte>, Executor&);                                       \
  template void convolve_vjp(const ConvolutionPlan<T>&, Signal<const T>, std::span<const T>, Signal<const T>,      \
                             Signal<T>, std::span<T>, const Sequences&, std::span<std::byte>, Executor&);          \
  template void convolve<T>(Signal<const T>, std::span<const T>, Signal<T>, Direction, Offsets);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf
