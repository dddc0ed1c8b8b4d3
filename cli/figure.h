// Panels of a figure: a frame with ticks and labels, and what is drawn inside it in its own coordinates.
#pragma once

#include <string>
#include <vector>

#include "svg.h"

namespace rtf::cli {

struct Interval {
  double low = 0, high = 1;
};

// Beyond it the width of an interval would overflow.
inline constexpr double largest_drawn = 4e307;
inline constexpr double marker_size = 4.5;

inline bool is_drawable(double value) { return value >= -largest_drawn && value <= largest_drawn; }

// The interval of all values that can be drawn with a margin, or around a constant one.
Interval interval_of(const std::vector<double>& values);

struct Tick {
  double value = 0;
  std::string text;
};

struct Axis {
  Interval range;
  std::string label;
  bool logarithmic = false;      // the range, and what is drawn, are logarithms to base 10
  std::vector<Tick> ticks = {};  // where round numbers would say nothing
};

class Panel {
 public:
  // Draws frame, grid, ticks, labels, and the title above it.
  Panel(Svg& svg, const Box& box, const std::string& title, Axis x, Axis y);

  Point at(double x, double y) const;
  bool contains(double x, double y) const;
  // Both parts of a point that is not finite end the line there.
  void curve(const std::vector<Point>& points, std::string_view style = "curve");
  void stems(const std::vector<Point>& points);
  void area(const std::vector<Point>& points, std::string_view style);
  void cross(double x, double y, double size = marker_size);
  void ring(double x, double y, double size = marker_size, std::string_view style = "zero");
  // The circle of radius 1 around 0, for panels with one scale for both axes.
  void unit_circle();
  void note(double x, double y, std::string_view text, Anchor anchor = Anchor::middle);
  // Inside, at the lower left corner.
  void footnote(std::string_view text);

 private:
  template <class F>
  void clipped(F&& draw);

  Svg& svg_;
  Box box_;
  Interval x_, y_;
};

}  // namespace rtf::cli
