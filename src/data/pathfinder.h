// Pathfinder: two winding dashed paths among shorter ones, a disc at an end of one, and the question whether the other
// disc is at the other end of the same path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rtf::data {

// What the images look like; lengths are in pixels.
struct PathfinderOptions {
  int size;                    // rows and columns
  int padding;                 // a border that paths keep off
  int segment_length;          // of a dash
  double thickness;            // of a dash
  std::array<int, 2> margins;  // half the gap between dashes, drawn anew for each image: lowest and highest
  int scale;                   // shapes are drawn so much larger, then made smaller without jagged edges
  double marker_radius;
  int segments;       // of each of the two paths
  int seed_distance;  // between their first ends
  double continuity;  // how straight they are: a joint bends by up to 90 degrees over this
  int distractor_segments, distractors;
  double distractor_contrast, path_contrast;
  int segment_tries, distractor_tries;
};

inline constexpr PathfinderOptions pathfinder_32 = {.size = 32,
                                                    .padding = 1,
                                                    .segment_length = 2,
                                                    .thickness = 0.5,
                                                    .margins = {1, 1},
                                                    .scale = 2,
                                                    .marker_radius = 1.5,
                                                    .segments = 14,
                                                    .seed_distance = 7,
                                                    .continuity = 1.0,
                                                    .distractor_segments = 4,
                                                    .distractors = 5,
                                                    .distractor_contrast = 2.0,
                                                    .path_contrast = 2.0 * 0.75,
                                                    .segment_tries = 3,
                                                    .distractor_tries = 5};

// The images of Path-X.
inline constexpr PathfinderOptions pathfinder_128 = {.size = 128,
                                                     .padding = 1,
                                                     .segment_length = 5,
                                                     .thickness = 1.5,
                                                     .margins = {2, 3},
                                                     .scale = 2,
                                                     .marker_radius = 3,
                                                     .segments = 14,
                                                     .seed_distance = 20,
                                                     .continuity = 1.8,
                                                     .distractor_segments = 4,
                                                     .distractors = 8,
                                                     .distractor_contrast = 0.9,
                                                     .path_contrast = 0.9,
                                                     .segment_tries = 3,
                                                     .distractor_tries = 5};

struct Point {
  int row, column;
  bool operator==(const Point&) const = default;
};

// p + radius (sin angle, cos angle), rounded up.
Point step(Point p, double angle, double radius);

struct Segment {
  Point tail, head;
  double angle;  // in which the path goes, from tail to head
};

struct Path {
  std::vector<Segment> segments;

  Point origin_tip() const { return segments.front().tail; }
  Point terminal_tip() const { return segments.back().head; }
};

struct PathfinderSample {
  std::vector<std::uint8_t> pixels;  // row by row, from 0 to 255
  int label = 0;                     // 1: both markers are on one path
  int margin = 0;
  std::array<Path, 2> paths;
  std::vector<Path> distractors;
  std::array<Point, 2> markers = {};
  std::size_t restarts = 0;  // pairs of paths that led nowhere
};

// The shapes of all directions are drawn once; samples are then put together from them, on any number of threads.
class Pathfinder {
 public:
  explicit Pathfinder(const PathfinderOptions& options);
  ~Pathfinder();

  const PathfinderOptions& options() const { return options_; }
  PathfinderSample draw(std::uint64_t seed, std::uint32_t index) const;

 private:
  struct Shapes;

  PathfinderOptions options_;
  std::unique_ptr<const Shapes> shapes_;
};

}  // namespace rtf::data
