// Where the paths of a Pathfinder image go.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "data/draws.h"
#include "data/pathfinder.h"
#include "data/pathfinder_shapes.h"

namespace rtf::data {

struct PlacedStamp {
  const Stamp* stamp;
  Point place;
};

struct DrawnPath {
  Path path;
  std::vector<PlacedStamp> lines;  // what its segments look like
};

// An image, in which every pixel is taken by 0 to 1, and the paths that take it.
class PathBoard {
 public:
  using Room = std::vector<float>;

  PathBoard(const PathfinderOptions& options, const DashTable& dashes, Draws& draws);

  // The two paths, begun anew until both are whole; `restarts` counts the failures.
  std::array<DrawnPath, 2> draw_paths(std::size_t& restarts);
  std::vector<DrawnPath> draw_distractors();

 private:
  // A path that grows. The room of its last segment is pending: its next one may touch that, no other path may.
  struct Growth {
    DrawnPath drawn;
    Point pivot = {};  // the joint before the last segment
    PlacedStamp last = {};
    Room* pending = nullptr;  // the room of the last segment, where another path grows beside this one
  };

  bool inside(Point p) const {
    return p.row >= 0 && p.row < options_.size && p.column >= 0 && p.column < options_.size;
  }
  // Of a point inside the image in a room, which goes on beyond its edges.
  std::ptrdiff_t index(Point p) const { return (p.row + board_edge) * board_side(options_) + p.column + board_edge; }
  void put(PlacedStamp mask, Room& room) const;
  void clear(PlacedStamp mask, Room& room) const;
  bool fits(PlacedStamp mask, const Room& room) const;
  float taken_around(Point p) const;

  bool begin(Growth& growth, Point tail, std::size_t degree) const;
  bool seed_first(Growth& growth);
  bool seed_second(Growth& growth, const Growth& first);
  bool seed_anywhere(Growth& growth);
  bool extend(Growth& growth, const Room* other);
  void add(Growth& growth, const Segment& segment, const Dash& dash, Point place) const;
  void settle(const Growth& growth);
  bool draw_pair(std::array<Growth, 2>& pair);
  std::optional<DrawnPath> draw_distractor();

  const PathfinderOptions& options_;
  const DashTable& dashes_;
  Draws& draws_;
  std::vector<int> disc_;  // what lies within the margin, as offsets in a room
  Room empty_;             // the border alone
  Room taken_;
  std::array<Room, 2> pending_;
  std::vector<PlacedStamp> settled_;  // what was put on taken_ since the last begin: clearing that alone is cheap
  std::vector<double> sums_;          // of the weights of candidates
};

}  // namespace rtf::data
