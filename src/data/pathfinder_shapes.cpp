#include "data/pathfinder_shapes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <utility>

namespace rtf::data {
namespace {

using std::numbers::pi;

// A square of pixels around a centre, as far as `half` in every direction.
struct Canvas {
  explicit Canvas(int half_) : half(half_), values(static_cast<std::size_t>(side() * side())) {}

  int side() const { return 2 * half + 1; }
  double& at(int row, int column) { return values[static_cast<std::size_t>((row + half) * side() + column + half)]; }
  double at(int row, int column) const { return const_cast<Canvas*>(this)->at(row, column); }

  int half;
  std::vector<double> values;
};

Canvas paint(int half, const std::function<bool(int, int)>& inside) {
  Canvas canvas(half);
  for (int row = -half; row <= half; ++row)
    for (int column = -half; column <= half; ++column) canvas.at(row, column) = inside(row, column) ? 1 : 0;
  return canvas;
}

double lanczos(double x) {
  if (x == 0) return 1;
  if (std::abs(x) >= 3) return 0;
  return 3 * std::sin(pi * x) * std::sin(pi * x / 3) / (pi * pi * x * x);
}

// weights[i][j]: what pixel j of a large row, both counted from the centre, has in pixel i of the small one.
std::vector<std::vector<double>> shrink_weights(int small_half, int large_half) {
  const double ratio = (2 * large_half + 1.0) / (2 * small_half + 1.0);
  std::vector<std::vector<double>> weights;
  for (int i = -small_half; i <= small_half; ++i) {
    auto& row = weights.emplace_back();
    double sum = 0;
    for (int j = -large_half; j <= large_half; ++j) sum += row.emplace_back(lanczos(j / ratio - i));
    for (double& weight : row) weight /= sum;
  }
  return weights;
}

// The canvas made smaller, cut to [0, 1]; what 8 bits do not tell from 0 is left out.
Stamp shrink(const Canvas& large, int half, int side_of_board) {
  const auto weights = shrink_weights(half, large.half);
  const int side = 2 * half + 1;
  std::vector<double> rows(static_cast<std::size_t>(side * large.side()));
  const auto at = [&](int i, int column) -> double& {
    return rows[static_cast<std::size_t>(i * large.side() + column + large.half)];
  };
  for (int i = 0; i < side; ++i)
    for (int row = -large.half; row <= large.half; ++row)
      for (int column = -large.half; column <= large.half; ++column)
        at(i, column) +=
            weights[static_cast<std::size_t>(i)][static_cast<std::size_t>(row + large.half)] * large.at(row, column);
  Stamp stamp;
  for (int i = 0; i < side; ++i)
    for (int j = 0; j < side; ++j) {
      double value = 0;
      for (int column = -large.half; column <= large.half; ++column)
        value += weights[static_cast<std::size_t>(j)][static_cast<std::size_t>(column + large.half)] * at(i, column);
      const int row = i - half, column = j - half;
      if (value >= 1.0 / 255)
        stamp.pixels.push_back({row, column, row * side_of_board + column, static_cast<float>(std::min(value, 1.0))});
    }
  return stamp;
}

// A line from the centre to `end`, of this width, with square ends.
Canvas paint_line(int half, Point end, int width) {
  const double length = std::hypot(end.row, end.column), sine = end.row / length, cosine = end.column / length;
  return paint(half, [&](int row, int column) {
    const double along = row * sine + column * cosine, across = row * cosine - column * sine;
    return along > -0.5 && along < length + 0.5 && std::abs(across) < width / 2.0 + 1e-9;
  });
}

Canvas dilate(const Canvas& canvas, int radius) {
  return paint(canvas.half, [&](int row, int column) {
    for (int i = std::max(row - radius, -canvas.half); i <= std::min(row + radius, canvas.half); ++i)
      for (int j = std::max(column - radius, -canvas.half); j <= std::min(column + radius, canvas.half); ++j)
        if ((i - row) * (i - row) + (j - column) * (j - column) <= radius * radius && canvas.at(i, j) > 0) return true;
    return false;
  });
}

}  // namespace

Dash draw_dash(const PathfinderOptions& options, int margin, double angle) {
  const int half = options.segment_length + static_cast<int>(std::ceil(options.thickness)) + margin;
  const int width = static_cast<int>(std::round(options.thickness * options.scale));
  const Point end = step({0, 0}, angle, options.segment_length * options.scale);
  const Canvas line = paint_line(half * options.scale, end, width);
  const int side = board_side(options);
  return {shrink(line, half, side), shrink(dilate(line, margin * options.scale), half, side)};
}

Stamp draw_disc(const PathfinderOptions& options) {
  const int half = static_cast<int>(std::ceil(options.marker_radius)) + 1;
  const double radius = options.marker_radius * options.scale;
  const auto inside = [&](int row, int column) { return std::hypot(row, column) <= radius; };
  return shrink(paint(half * options.scale, inside), half, board_side(options));
}

DashTable::DashTable(const PathfinderOptions& options, int margin_) : margin(margin_) {
  for (int degree = -180; degree < 180; ++degree) seeds.push_back(draw_dash(options, margin, degree * pi / 180));
  // One point of the circle for each pixel of its length.
  const int radius = options.segment_length + margin, points = static_cast<int>(std::ceil(2 * pi * radius));
  std::set<std::pair<int, int>> known;
  for (int i = 0; i < points; ++i) {
    const double turn = 2 * pi * i / points;
    const auto down = [](double x) { return static_cast<int>(std::floor(x + 1e-9)); };
    const Point offset = {down(radius * std::sin(turn)), down(radius * std::cos(turn))};
    if (!known.emplace(offset.row, offset.column).second) continue;
    const double angle = std::atan2(offset.row, offset.column);
    candidates.push_back({offset, angle, draw_dash(options, margin, angle + pi)});
  }
}

}  // namespace rtf::data
