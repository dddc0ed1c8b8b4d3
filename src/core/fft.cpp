#include "core/fft.h"

#include <map>
#include <mutex>
#include <tuple>

namespace rtf {
namespace {

const FftBackend* backend(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::v4) return rtf_fft_v4();
  if (set == InstructionSet::v3) return rtf_fft_v3();
#endif
  (void)set;
  return rtf_fft_portable();
}

std::unique_ptr<Fft<float>> make(const FftBackend* from, FftKind kind, FftLanes lanes, std::size_t length, float) {
  return from->make_float(kind, lanes, length);
}
std::unique_ptr<Fft<double>> make(const FftBackend* from, FftKind kind, FftLanes lanes, std::size_t length, double) {
  return from->make_double(kind, lanes, length);
}

}  // namespace

template <class T>
std::shared_ptr<const Fft<T>> get_fft(FftKind kind, FftLanes lanes, std::size_t length, InstructionSet set) {
  using Key = std::tuple<FftKind, FftLanes, std::size_t, InstructionSet>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const Fft<T>>> cache;
  // The transforms used last stay alive after their plans: a program that makes a plan a call does not pay each time.
  static std::map<Key, std::shared_ptr<const Fft<T>>> recent;
  constexpr std::size_t most_recent = 64;
  if (lanes == FftLanes::half && set != InstructionSet::v4) lanes = FftLanes::all;
#if defined(__x86_64__)
  if (set == InstructionSet::portable) lanes = FftLanes::one;  // Highway's portable vectors have one lane there
#endif

  const Key key{kind, lanes, length, set};
  const std::lock_guard lock(mutex);
  if (auto found = cache[key].lock()) return found;
  std::shared_ptr<const Fft<T>> fft = make(backend(set), kind, lanes, length, T());
  cache[key] = fft;
  if (recent.size() >= most_recent) {
    recent.clear();
    std::erase_if(cache, [](const auto& entry) { return entry.second.expired(); });
  }
  recent[key] = fft;
  return fft;
}

template std::shared_ptr<const Fft<float>> get_fft(FftKind, FftLanes, std::size_t, InstructionSet);
template std::shared_ptr<const Fft<double>> get_fft(FftKind, FftLanes, std::size_t, InstructionSet);

std::size_t good_size(std::size_t n) { return rtf_fft_portable()->good_size(n); }

}  // namespace rtf
