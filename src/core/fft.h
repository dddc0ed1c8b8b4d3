// One-dimensional transforms of several rows side by side, one row a SIMD lane. DUCC does the work.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "rtf/instruction_set.h"

namespace rtf {

// Rows are interleaved. Complex: the parts of element t of row l lie at [(2 t) lanes + l] and [(2 t + 1) lanes + l].
// Real: element t of row l lies at [t lanes + l]; its spectrum in the same place is (r0, r1, i1, r2, i2, ...).
template <class T>
class Fft {
 public:
  virtual ~Fft() = default;

  std::size_t length = 0;
  std::size_t lanes = 0;
  std::size_t elements = 0;  // of T in the data
  std::size_t buffer = 0;    // of T in the buffer

  // Unnormalised, and they allocate nothing when lanes > 1. The result lies in `data` or in `other`, which is as large:
  // the returned pointer tells.
  virtual T* forward(T* data, T* other, T* buffer) const = 0;
  virtual T* backward(T* data, T* other, T* buffer) const = 0;
};

// The arrays that one transform works in; `data` always points at the result of the last one.
template <class T>
struct FftRow {
  FftRow(const Fft<T>& fft_, T* space)
      : fft(fft_), data(space), other(space + fft_.elements), buffer(space + 2 * fft_.elements) {}

  static std::size_t elements(const Fft<T>& fft) { return 2 * fft.elements + fft.buffer; }

  void forward() { keep(fft.forward(data, other, buffer)); }
  void backward() { keep(fft.backward(data, other, buffer)); }

  const Fft<T>& fft;
  T *data, *other, *buffer;

 private:
  void keep(T* result) {
    if (result != data) std::swap(data, other);
  }
};

enum class FftKind { complex, real };
enum class FftLanes { one, half, all };  // of a vector; half exists on v4 and is all elsewhere

// Cached, and safe to call from any thread.
template <class T>
std::shared_ptr<const Fft<T>> get_fft(FftKind kind, FftLanes lanes, std::size_t length, InstructionSet set);

// The smallest length >= n whose transform is fast.
std::size_t good_size(std::size_t n);

// What fft_level.cpp provides, once for each instruction set.
struct FftBackend {
  std::unique_ptr<Fft<float>> (*make_float)(FftKind, FftLanes, std::size_t length);
  std::unique_ptr<Fft<double>> (*make_double)(FftKind, FftLanes, std::size_t length);
  std::size_t (*good_size)(std::size_t);
};

}  // namespace rtf

extern "C" {
const rtf::FftBackend* rtf_fft_portable();
const rtf::FftBackend* rtf_fft_v3();
const rtf::FftBackend* rtf_fft_v4();
}
