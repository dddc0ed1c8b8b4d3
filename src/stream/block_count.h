// A block's vectors as a constant of the loops over them. Included once for each instruction set.
#if defined(RTF_STREAM_BLOCK_COUNT_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RTF_STREAM_BLOCK_COUNT_H
#undef RTF_STREAM_BLOCK_COUNT_H
#else
#define RTF_STREAM_BLOCK_COUNT_H
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rtf::stream {
namespace HWY_NAMESPACE {
namespace {

// A number of vectors that is known when the loops over them are compiled.
template <int count>
struct Count {
  static constexpr int value = count;
};

// run(Count<vectors>) for a block of 1 to `most` vectors.
template <int most, class Run>
HWY_INLINE void with_count(std::size_t vectors, Run&& run) {
  if constexpr (most > 0) {
    if (vectors == most) {
      run(Count<most>());
    } else {
      with_count<most - 1>(vectors, run);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rtf::stream
HWY_AFTER_NAMESPACE();

#endif
