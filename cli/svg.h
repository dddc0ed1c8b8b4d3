// A small writer of SVG pictures. Colours are classes of a style sheet with one set for light and one for dark screens.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rtf::cli {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double left = 0, top = 0, width = 0, height = 0;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

enum class Anchor { start, middle, end };

// Beside "curve" or "ring": the colour and dashes of line i of several. So many differ, then they come again.
inline constexpr std::size_t different_series = 24;
std::string series_style(std::size_t i);

// Classes: ink, muted and strong (texts), frame, grid, axis, curve, stem, dot, pole, zero, region, inner and border.
// Pictures with `series` have ring too, and beside curve faint and dashed.
class Svg {
 public:
  // `description` is what a reader hears who cannot see the picture.
  Svg(double width, double height, std::string_view description, bool series = false);

  void line(Point from, Point to, std::string_view style);
  void polyline(std::span<const Point> points, std::string_view style);
  void polygon(std::span<const Point> points, std::string_view style);
  void circle(Point centre, double radius, std::string_view style);
  void cross(Point centre, double radius, std::string_view style);
  void rectangle(const Box& box, std::string_view style);
  void text(Point at, std::string_view text, std::string_view style, Anchor anchor = Anchor::start, double turned = 0);
  // What is drawn until end_clip() shows inside the box alone.
  void begin_clip(const Box& box);
  void end_clip();

  std::string finish();

 private:
  void shape(std::string_view name, std::span<const Point> points, std::string_view style);

  std::string content_;
  int clips_ = 0;
};

}  // namespace rtf::cli
