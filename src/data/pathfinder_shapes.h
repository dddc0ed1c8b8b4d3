// The shapes of Pathfinder: dashes and discs, drawn enlarged and made smaller by Lanczos' filter.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pathfinder.h"

namespace rtf::data {

// Images are laid into rows that go on for so many pixels on all sides, so that no shape has to be cut at an edge.
inline constexpr int board_edge = 16;
inline int board_side(const PathfinderOptions& options) { return options.size + 2 * board_edge; }

// A shape as its pixels that are not 0, relative to where it is put; values are in (0, 1].
struct Stamp {
  struct Pixel {
    int row, column;
    int offset;  // from the place to the pixel, on a board
    float value;
  };
  std::vector<Pixel> pixels;
};

// A dash that begins where it is put, and the room that it keeps free around itself.
struct Dash {
  Stamp line, mask;
};

Dash draw_dash(const PathfinderOptions& options, int margin, double angle);
Stamp draw_disc(const PathfinderOptions& options);

// Where the head of the next segment may be, relative to the joint before it.
struct Candidate {
  Point offset;
  double angle;  // of the segment
  Dash dash;     // from the head backwards
};

// All dashes of one margin.
struct DashTable {
  DashTable(const PathfinderOptions& options, int margin);

  int margin;
  std::vector<Dash> seeds;  // by direction in degrees, from -180 on
  std::vector<Candidate> candidates;
};

}  // namespace rtf::data
