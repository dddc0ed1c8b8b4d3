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
  int64_t pairs() const { return ceil_div(channels(), 2); }
  // A denominator serves its whole group, unless pairs cross the border between groups.
  bool shared_denominators() const { return groups == 1 || per_group % 2 == 0; }
  int64_t spectra() const { return shared_denominators() ? groups : pairs(); }
};

class KernelTiles {
 public:
  KernelTiles(const KernelSizes& sizes, bool gradient) : sizes_(sizes), signals_(gradient ? 2 : 1) {
    const int64_t each = sizes.channels_per_group();
    const int64_t fit = std::max<int64_t>(tile_bytes / (sizes.length * 2 * sizeof(double)), 4);  // rows of scratch
    const int64_t twice_rows = each % 2 == 0 ? 2 + signals_ * each : (1 + signals_) * each;      // of a group
    groups_ = even_share(sizes.groups, std::max<int64_t>(2 * fit / twice_rows, 1));
    // One denominator beside the rows of its channels does no harm.
    per_group_ = groups_ > 1 ? each : even_share(each, 2 * (fit / signals_));
  }

  KernelTile largest() const { return {0, groups_, 0, per_group_}; }
  int64_t scratch_rows() const { return largest().spectra() + signals_ * largest().pairs(); }

  template <class Body>
  void for_each(Body body) const {
    const int64_t each = sizes_.channels_per_group();
    for (int64_t group = 0; group < sizes_.groups; group += groups_)
      for (int64_t begin = 0; begin < each; begin += per_group_)
        body(KernelTile{group, std::min(groups_, sizes_.groups - group), begin, std::min(per_group_, each - begin)});
  }

 private:
  // Of `count` things at most `most` at a time, in tiles as large as each other: an even number if there are several.
  static int64_t even_share(int64_t count, int64_t most) {
    const int64_t share = ceil_div(count, ceil_div(count, most));
    return share == count || share == 1 ? share : share + share % 2 > most ? share - 1 : share + share % 2;
  }

  KernelSizes sizes_;
  int64_t signals_, groups_, per_group_;
};

}  // namespace rtf::cuda
