// Which channels go through the two-level transforms together.
#pragma once

#include <algorithm>

#include "cuda/wrapped_kernel.h"

namespace rtf::cuda {

// Measured on an H200: launches cost more than what a tile that fits in the cache saves.
constexpr std::size_t tile_bytes = 320 << 20;

// Some groups with all of their channels, or one group with some of them.
struct KernelTile {
  int64_t group, groups, begin, per_group;

  int64_t channels() const { return groups * per_group; }
};

class KernelTiles {
 public:
  // `signal_bytes` of scratch for each denominator and for each of a channel's signals: b, and dk of the gradient.
  KernelTiles(const KernelSizes& sizes, bool gradient, std::size_t signal_bytes)
      : sizes_(sizes), signals_(gradient ? 2 : 1) {
    const int64_t each = sizes.channels_per_group();
    const int64_t fit = std::max<int64_t>(tile_bytes / signal_bytes, 8);
    groups_ = even_share(sizes.groups, std::max<int64_t>(fit / (1 + signals_ * each), 1));
    per_group_ = groups_ > 1 ? each : even_share(each, (fit - 1) / signals_);
  }

  KernelTile largest() const { return {0, groups_, 0, per_group_}; }
  int64_t signals() const { return groups_ + signals_ * largest().channels(); }

  template <class Body>
  void for_each(Body body) const {
    const int64_t each = sizes_.channels_per_group();
    for (int64_t group = 0; group < sizes_.groups; group += groups_)
      for (int64_t begin = 0; begin < each; begin += per_group_)
        body(KernelTile{group, std::min(groups_, sizes_.groups - group), begin, std::min(per_group_, each - begin)});
  }

 private:
  // Of `count` things at most `most` at a time, in tiles as large as each other.
  static int64_t even_share(int64_t count, int64_t most) { return ceil_div(count, ceil_div(count, most)); }

  KernelSizes sizes_;
  int64_t signals_, groups_, per_group_;
};

}  // namespace rtf::cuda
