// Pathfinder: the geometry of its paths, the label that it implies, and the pixels that show it.
#include "data/pathfinder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <set>

#include "data/pathfinder_shapes.h"
#include "expect_refusal.h"

namespace rtf::data {
namespace {

using std::numbers::pi;

const Pathfinder& generator(int size) {
  static const Pathfinder small(pathfinder_32), large(pathfinder_128);
  return size == 32 ? small : large;
}

std::uint32_t samples_of(int size) { return size == 32 ? 400 : 24; }

double distance(Point a, Point b) { return std::hypot(a.row - b.row, a.column - b.column); }

class Geometry : public ::testing::TestWithParam<int> {
 protected:
  const PathfinderOptions& options() const { return generator(GetParam()).options(); }

  template <class Visit>
  void each_sample(Visit&& visit) {
    for (std::uint32_t i = 0; i < samples_of(GetParam()); ++i) visit(generator(GetParam()).draw(11, i));
  }

  // Rounding up of a joint, rounding down of a head and rounding up of a tail move each by less than a pixel's
  // diagonal.
  static constexpr double rounding = std::numbers::sqrt2;

  void expect_path(const Path& path, int margin, std::size_t count) const {
    ASSERT_EQ(path.segments.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const Segment& segment = path.segments[i];
      EXPECT_NEAR(distance(segment.tail, segment.head), options().segment_length, rounding);
      EXPECT_TRUE(std::min(segment.head.row, segment.head.column) >= 0);
      EXPECT_TRUE(std::max(segment.head.row, segment.head.column) < options().size);
      if (i == 0) continue;
      const Segment& before = path.segments[i - 1];
      // From a head to the joint and on to the next tail is a margin each, up to two roundings each.
      EXPECT_LT(distance(before.head, segment.tail), 2 * margin + 4 * rounding);
      const double turn = std::abs(std::remainder(segment.angle - before.angle, 2 * pi));
      EXPECT_LT(turn, pi / 2 / options().continuity);
    }
  }
};

TEST_P(Geometry, PathsAreChainsOfSegments) {
  std::size_t distractors = 0;
  each_sample([&](const PathfinderSample& sample) {
    EXPECT_TRUE(sample.margin >= options().margins[0] && sample.margin <= options().margins[1]);
    for (const Path& path : sample.paths) expect_path(path, sample.margin, 14);
    EXPECT_LE(sample.distractors.size(), static_cast<std::size_t>(options().distractors));
    distractors += sample.distractors.size();
    for (const Path& path : sample.distractors) expect_path(path, sample.margin, 4);
    const double apart = distance(sample.paths[0].origin_tip(), sample.paths[1].origin_tip());
    EXPECT_NEAR(apart, options().seed_distance, std::numbers::sqrt2 / 2);
    const Point first = sample.paths[0].origin_tip();
    EXPECT_GE(std::min(first.row, first.column), 2 * options().seed_distance);
    EXPECT_LT(std::max(first.row, first.column), options().size - 2 * options().seed_distance);
  });
  // Most find room: at least four of five.
  EXPECT_GT(static_cast<double>(distractors), 0.8 * options().distractors * samples_of(GetParam()));
}

// The segments that can follow `segment`, whose joint is `joint`: their heads lie on the circle around the next joint,
// in their own direction, and the path bends no more than it may.
std::vector<Segment> followers(const std::vector<Segment>& heap, const Segment& segment, Point next, int radius,
                               double most_bend) {
  std::vector<Segment> found;
  for (const Segment& s : heap) {
    const double angle = std::atan2(s.head.row - next.row, s.head.column - next.column);
    const auto differ = [](double a, double b) { return std::abs(std::remainder(a - b, 2 * pi)); };
    if (std::abs(distance(s.head, next) - radius) < std::numbers::sqrt2 && differ(angle, s.angle) < 1e-9 &&
        differ(s.angle, segment.angle) < most_bend)
      found.push_back(s);
  }
  return found;
}

// All segments in one heap, of both paths and of the distractors: from the first marker on, following them one after
// the other must end at the second marker where the label says so. Two paths may share a joint by chance; then every
// way on is followed, and one that ends at the wrong tip is counted as a doubt.
TEST_P(Geometry, FollowingThePathGivesTheLabel) {
  std::mt19937 random(1);
  std::size_t doubts = 0;
  each_sample([&](const PathfinderSample& sample) {
    std::vector<Segment> heap;
    for (const Path& path : sample.paths) heap.insert(heap.end(), path.segments.begin(), path.segments.end());
    for (const Path& path : sample.distractors) heap.insert(heap.end(), path.segments.begin(), path.segments.end());
    std::shuffle(heap.begin(), heap.end(), random);

    const int length = options().segment_length, margin = sample.margin;
    std::size_t ends = 0, ends_at_marker = 0;
    const std::function<void(const Segment&, Point, int)> follow = [&](const Segment& segment, Point joint,
                                                                       int number) {
      if (number == options().segments) {
        ++ends;
        ends_at_marker += segment.head == sample.markers[1];
        return;
      }
      const Point next = step(joint, segment.angle, length + 2 * margin);
      for (const Segment& s : followers(heap, segment, next, length + margin, pi / 2 / options().continuity))
        follow(s, next, number + 1);
    };
    for (const Segment& s : heap)
      if (s.tail == sample.markers[0]) follow(s, step(s.head, s.angle + pi, length + margin), 1);
    EXPECT_GE(ends, 1u);
    EXPECT_TRUE(sample.label == 0 || ends_at_marker > 0);
    doubts += sample.label == 1 ? ends_at_marker < ends : ends_at_marker > 0;
  });
  EXPECT_LE(static_cast<double>(doubts), 0.02 * samples_of(GetParam()));
}

// The room of a segment is its pixels with those within the margin; no two segments but neighbours of one path, of
// which the second was tried against all but the first, share a pixel that both fill.
TEST_P(Geometry, SegmentsKeepClearOfEachOther) {
  each_sample([&](const PathfinderSample& sample) {
    struct Placed {
      std::size_t path, number;
      std::vector<float> room;
    };
    const auto size = static_cast<std::size_t>(options().size);
    std::vector<Placed> all;
    std::vector<Path> paths(sample.paths.begin(), sample.paths.end());
    paths.insert(paths.end(), sample.distractors.begin(), sample.distractors.end());
    for (std::size_t p = 0; p < paths.size(); ++p)
      for (std::size_t i = 0; i < paths[p].segments.size(); ++i) {
        const Segment& segment = paths[p].segments[i];
        const Dash dash = draw_dash(options(), sample.margin, i == 0 ? segment.angle : segment.angle + pi);
        const Point place = i == 0 ? segment.tail : segment.head;
        Placed& placed = all.emplace_back(Placed{p, i, std::vector<float>(size * size)});
        for (const auto& pixel : dash.mask.pixels) {
          const int row = place.row + pixel.row, column = place.column + pixel.column;
          if (row >= 0 && row < options().size && column >= 0 && column < options().size)
            placed.room[static_cast<std::size_t>(row) * size + static_cast<std::size_t>(column)] = pixel.value;
        }
      }
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        if (all[i].path == all[j].path && all[i].number - all[j].number == 1) continue;
        float most = 0;
        for (std::size_t k = 0; k < size * size; ++k) most = std::max(most, all[i].room[k] + all[j].room[k]);
        EXPECT_LT(most, 1.8f) << "segment " << all[i].number << " of path " << all[i].path << " and segment "
                              << all[j].number << " of path " << all[j].path;
      }
  });
}

TEST_P(Geometry, MarkersAreAtTheTips) {
  each_sample([&](const PathfinderSample& sample) {
    const std::size_t origin = sample.markers[0] == sample.paths[0].origin_tip() ? 0 : 1;
    EXPECT_EQ(sample.markers[0], sample.paths[origin].origin_tip());
    EXPECT_EQ(sample.markers[1], sample.paths[sample.label == 1 ? origin : 1 - origin].terminal_tip());
  });
}

TEST_P(Geometry, PixelsShowIt) {
  const auto size = static_cast<std::size_t>(options().size);
  double lit = 0, dashes = 0, distractors = 0, dash_count = 0, distractor_count = 0;
  each_sample([&](const PathfinderSample& sample) {
    ASSERT_EQ(sample.pixels.size(), size * size);
    EXPECT_EQ(*std::min_element(sample.pixels.begin(), sample.pixels.end()), 0);
    EXPECT_EQ(*std::max_element(sample.pixels.begin(), sample.pixels.end()), 255);
    const auto pixel = [&](Point p) {
      return sample.pixels[static_cast<std::size_t>(p.row) * size + static_cast<std::size_t>(p.column)];
    };
    // A disc is 1 before scaling and nothing is brighter than a distractor's contrast.
    const double marker = 255 / std::max(1.0, options().distractor_contrast);
    for (const Point& p : sample.markers) EXPECT_GE(pixel(p), std::floor(marker));
    lit += static_cast<double>(std::count_if(sample.pixels.begin(), sample.pixels.end(), [](int v) { return v > 64; }));
    const auto brightest = [&](const Path& path, double& sum, double& count) {
      for (std::size_t i = 1; i + 1 < path.segments.size(); ++i) {
        const Segment& segment = path.segments[i];
        const Point middle = {(segment.head.row + segment.tail.row) / 2,
                              (segment.head.column + segment.tail.column) / 2};
        if (std::min(distance(middle, sample.markers[0]), distance(middle, sample.markers[1])) <
            options().marker_radius + options().segment_length)
          continue;
        const int most = std::max({pixel(segment.head), pixel(segment.tail), pixel(middle)});
        EXPECT_GT(most, 64);
        sum += most;
        ++count;
      }
    };
    for (const Path& path : sample.paths) brightest(path, dashes, dash_count);
    for (const Path& path : sample.distractors) brightest(path, distractors, distractor_count);
  });
  // Dashes and discs as if none were hidden: an estimate of the bright pixels, within a factor of two.
  const double pixels = 48 * (options().segment_length + 1) * std::max(1.0, options().thickness) +
                        2 * pi * options().marker_radius * options().marker_radius;
  const double mean = lit / samples_of(GetParam());
  EXPECT_GT(mean, pixels / 2);
  EXPECT_LT(mean, pixels * 2);
  // Distractors are brighter at 32 pixels by 2.0 to 1.5, and as bright at 128. Sums of some hundred brightnesses that
  // differ by their direction: within a tenth.
  EXPECT_NEAR((distractors / distractor_count) / (dashes / dash_count),
              options().distractor_contrast / options().path_contrast, 0.1);
}

TEST_P(Geometry, SameSeedSameImage) {
  const auto& one = generator(GetParam());
  const Pathfinder other(options());
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(one.draw(5, i).pixels, other.draw(5, i).pixels);
    EXPECT_NE(one.draw(5, i).pixels, one.draw(6, i).pixels);
    EXPECT_NE(one.draw(5, i).pixels, one.draw(5, i + 1).pixels);
  }
}

INSTANTIATE_TEST_SUITE_P(Pathfinder, Geometry, ::testing::Values(32, 128), ::testing::PrintToStringParamName());

TEST(Pathfinder, LabelsMarkersAndMarginsAreBalanced) {
  const std::uint32_t count = 2000;
  int ones = 0, from_first = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const PathfinderSample sample = generator(32).draw(12, i);
    ones += sample.label;
    from_first += sample.markers[0] == sample.paths[0].origin_tip();
  }
  // Five standard deviations of a fair coin.
  const double bound = 5 * std::sqrt(count) / 2;
  EXPECT_NEAR(ones, count / 2, bound);
  EXPECT_NEAR(from_first, count / 2, bound);
  std::set<int> margins;
  for (std::uint32_t i = 0; i < 24; ++i) margins.insert(generator(128).draw(12, i).margin);
  EXPECT_EQ(margins, (std::set<int>{2, 3}));
}

// Whole area, no ringing below 0, nothing above 1; the room is the line and what lies around it.
TEST(Pathfinder, ShapesHaveTheirArea) {
  for (const PathfinderOptions& options : {pathfinder_32, pathfinder_128})
    for (int degree = -180; degree < 180; degree += 7) {
      const double angle = degree * pi / 180;
      const int margin = options.margins[1];
      const Dash dash = draw_dash(options, margin, angle);
      const Point end = step({0, 0}, angle, options.segment_length * options.scale);
      const double length = std::hypot(end.row, end.column) / options.scale;
      double line = 0, mask = 0;
      for (const auto& pixel : dash.line.pixels) line += pixel.value;
      for (const auto& pixel : dash.mask.pixels) mask += pixel.value;
      for (const auto& pixel : dash.mask.pixels) EXPECT_TRUE(pixel.value > 0 && pixel.value <= 1);
      // Pixels of the enlarged canvas are all or nothing, half a pixel at every edge, and a thin slanted line may have
      // but every other one.
      const double edge = 1.0 / options.scale, w = options.thickness;
      EXPECT_GT(line, (length - edge) * w / 2);
      EXPECT_LT(line, (length + 2 * edge) * (w + 2 * edge));
      EXPECT_GT(mask, (length + 2 * margin - 3 * edge) * (w + 2 * margin - 2 * edge) * pi / 4);
      EXPECT_LT(mask, (length + 2 * margin + 3 * edge) * (w + 2 * margin + 3 * edge));
    }
}

TEST(Pathfinder, RefusesSizesThatLeaveNoRoom) {
  PathfinderOptions options = pathfinder_32;
  options.size = 28;
  rtf::testing::expect_refusal("[rtf::pathfinder] no image has these sizes", [&] { Pathfinder{options}; });
  options.size = 200;
  rtf::testing::expect_refusal("no image has these sizes", [&] { Pathfinder{options}; });
}

}  // namespace
}  // namespace rtf::data
