// DUCC's 1-D transforms for one instruction set. CMake compiles this file once for each, with RTF_FFT_LEVEL its name;
// DUCC's own namespace macro keeps the copies apart.
#define RTF_JOIN_(a, b) a##b
#define RTF_JOIN(a, b) RTF_JOIN_(a, b)
#define DUCC0_NAMESPACE RTF_JOIN(rtf_ducc_, RTF_FFT_LEVEL)
#define DUCC0_NO_LOWLEVEL_THREADING

#include "core/fft.h"
#include "ducc0/fft/fft1d_impl.h"
#include "ducc0/infra/threading.cc"

namespace rtf {
namespace {

namespace ducc = DUCC0_NAMESPACE;

template <class T, class Pass, class Element>
class DuccFft final : public Fft<T> {
 public:
  DuccFft(std::size_t length, std::size_t lanes) : pass_(Pass::make_pass(length)) {
    this->length = length;
    this->lanes = lanes;
    this->elements = length * (sizeof(Element) / sizeof(T));
    this->buffer = pass_->bufsize() * (sizeof(Element) / sizeof(T));
  }

  T* forward(T* data, T* other, T* buffer) const override { return run(data, other, buffer, true); }
  T* backward(T* data, T* other, T* buffer) const override { return run(data, other, buffer, false); }

 private:
  T* run(T* data, T* other, T* buffer, bool forward) const {
    static const std::type_index type(typeid(Element*));
    return static_cast<T*>(pass_->exec(type, data, other, buffer, forward));
  }

  std::shared_ptr<Pass> pass_;
};

template <class T, class Vector>
std::unique_ptr<Fft<T>> make_lanes(FftKind kind, std::size_t length) {
  constexpr std::size_t lanes = sizeof(Vector) / sizeof(T);
  if (kind == FftKind::complex)
    return std::make_unique<DuccFft<T, ducc::detail_fft::cfftpass<T>, ducc::Cmplx<Vector>>>(length, lanes);
  return std::make_unique<DuccFft<T, ducc::detail_fft::rfftpass<T>, Vector>>(length, lanes);
}

template <class T>
std::unique_ptr<Fft<T>> make(FftKind kind, FftLanes lanes, std::size_t length) {
  constexpr int full = ducc::native_simd<T>::size();
  if (lanes == FftLanes::one) return make_lanes<T, T>(kind, length);
  if constexpr (full * sizeof(T) == 64)
    if (lanes == FftLanes::half) return make_lanes<T, typename ducc::simd_select<T, full / 2>::type>(kind, length);
  return make_lanes<T, ducc::native_simd<T>>(kind, length);
}

}  // namespace
}  // namespace rtf

extern "C" const rtf::FftBackend* RTF_JOIN(rtf_fft_, RTF_FFT_LEVEL)() {
  static const rtf::FftBackend backend{rtf::make<float>, rtf::make<double>, [](std::size_t n) {
                                         return DUCC0_NAMESPACE::detail_fft::util1d::good_size_cmplx(n);
                                       }};
  return &backend;
}
