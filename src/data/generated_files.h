// The generated data sets as files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/pathfinder.h"
#include "data/png.h"
#include "rtf/executor.h"

namespace rtf::data {

using SplitCounts = std::array<std::size_t, 3>;  // train, val, test
using ClassCounts = std::vector<std::size_t>;    // samples by label

// How many of all samples are done, told now and then.
using Progress = std::function<void(std::size_t)>;

// `folder`/basic_{train,val,test}.tsv. All three get their names at the end. Returns the classes of each split.
std::array<ClassCounts, 3> write_listops(const std::string& folder, std::uint64_t seed, SplitCounts counts,
                                         Executor& executor, const Progress& progress);

// A record file with the splits one after the other.
std::array<ClassCounts, 3> write_pathfinder(const std::string& path, const Pathfinder& generator, std::uint64_t seed,
                                            SplitCounts counts, Executor& executor, const Progress& progress);

// The layout of the public release: `folder`/imgs/<batch>/sample_<k>.png and `folder`/metadata/<batch>.npy, which is
// text. A batch has 1000 pictures. Both folders get their names at the end, and none that is there already is touched.
ClassCounts write_pathfinder_pictures(const std::string& folder, const Pathfinder& generator, std::uint64_t seed,
                                      std::size_t count, Executor& executor, const Progress& progress);

// 64 images, those of connected discs first and in a blue frame, the others in an orange one.
Picture pathfinder_sheet(const Pathfinder& generator, std::uint64_t seed);

}  // namespace rtf::data
