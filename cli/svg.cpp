#include "svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/printable.h"

namespace rtf::cli {
namespace {

// Plain rules first, so that viewers without media queries show the light set.
constexpr std::string_view style_sheet = R"(
text { font-family: sans-serif; font-size: 12px; }
.paper { fill: #ffffff; }
.ink { fill: #1f2430; }
.muted { fill: #555d6b; font-size: 11px; }
.strong { fill: #1f2430; font-size: 17px; font-weight: bold; }
.frame { fill: none; stroke: #8b93a1; stroke-width: 1; }
.grid { stroke: #e4e7ec; stroke-width: 1; }
.axis { fill: none; stroke: #8b93a1; stroke-width: 1; }
.curve { fill: none; stroke: #1f5fbf; stroke-width: 1.6; stroke-linejoin: round; }
.stem { stroke: #1f5fbf; stroke-width: 1.2; }
.dot { fill: #1f5fbf; }
.pole { fill: none; stroke: #c2410c; stroke-width: 1.8; }
.zero { fill: none; stroke: #1f5fbf; stroke-width: 1.6; }
.region { fill: #e3edf9; stroke: #1f5fbf; stroke-width: 1.2; }
.inner { fill: #b5d0f2; stroke: #1f5fbf; stroke-width: 1; }
.border { fill: none; stroke: #555d6b; stroke-width: 1.2; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #14171c; }
  .ink, .strong { fill: #e8eaee; }
  .muted { fill: #a9b1be; }
  .frame, .axis { stroke: #6b7483; }
  .grid { stroke: #2a2f38; }
  .curve, .stem, .zero { stroke: #74abff; }
  .dot { fill: #74abff; }
  .pole { stroke: #ff9a5c; }
  .region { fill: #1b2a40; stroke: #74abff; }
  .inner { fill: #2d4a72; stroke: #74abff; }
  .border { stroke: #a9b1be; }
}
)";

// Of pictures with several lines.
constexpr std::string_view series_sheet = R"(.faint { opacity: 0.4; stroke-width: 1; }
.dashed { stroke-dasharray: 5 3; }
.dashed_1 { stroke-dasharray: 7 3; }
.dashed_2 { stroke-dasharray: 2 2.5; }
.ring { fill: #ffffff; stroke-width: 2; stroke-dasharray: none; }
.series_0 { stroke: #1f5fbf; }
.series_1 { stroke: #c2410c; }
.series_2 { stroke: #15803d; }
.series_3 { stroke: #a21caf; }
.series_4 { stroke: #0e7490; }
.series_5 { stroke: #a16207; }
.series_6 { stroke: #be123c; }
.series_7 { stroke: #475569; }
@media (prefers-color-scheme: dark) {
  .ring { fill: #14171c; }
  .series_0 { stroke: #74abff; }
  .series_1 { stroke: #ff9a5c; }
  .series_2 { stroke: #5fd38a; }
  .series_3 { stroke: #e28bf0; }
  .series_4 { stroke: #4fd1e0; }
  .series_5 { stroke: #e0b35a; }
  .series_6 { stroke: #ff7d95; }
  .series_7 { stroke: #b6bfcc; }
}
)";

// File names may hold anything; XML allows neither control characters nor broken UTF-8.
std::string escaped(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::size_t count = printable_bytes(text);
    const char c = text[0];
    if (count == 0) {
      safe += '?';
    } else if (c == '&' || c == '<' || c == '>' || c == '"') {
      safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&quot;";
    } else {
      safe += text.substr(0, count);
    }
    text.remove_prefix(std::max<std::size_t>(count, 1));
  }
  return safe;
}

// A hundredth of a pixel, without the zeros at the end.
std::string number(double value) { return fmt::format("{}", std::round(value * 100) / 100 + 0.0); }

}  // namespace

std::string series_style(std::size_t i) {
  const std::size_t dashes = i % different_series / 8;
  return fmt::format("series_{}{}", i % 8, dashes == 0 ? "" : fmt::format(" dashed_{}", dashes));
}

Svg::Svg(double width, double height, std::string_view description, bool series) {
  content_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
      "<title>{2}</title>\n<style>{3}{4}</style>\n",
      number(width), number(height), escaped(description), style_sheet, series ? series_sheet : "");
  rectangle({0, 0, width, height}, "paper");
}

void Svg::line(Point from, Point to, std::string_view style) {
  content_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style, number(from.x),
                          number(from.y), number(to.x), number(to.y));
}

void Svg::shape(std::string_view name, std::span<const Point> points, std::string_view style) {
  content_ += fmt::format("<{} class=\"{}\" points=\"", name, style);
  for (std::size_t i = 0; i < points.size(); ++i)
    content_ += fmt::format("{}{},{}", i == 0 ? "" : " ", number(points[i].x), number(points[i].y));
  content_ += "\"/>\n";
}

void Svg::polyline(std::span<const Point> points, std::string_view style) { shape("polyline", points, style); }

void Svg::polygon(std::span<const Point> points, std::string_view style) { shape("polygon", points, style); }

void Svg::circle(Point centre, double radius, std::string_view style) {
  content_ += fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>\n", style, number(centre.x),
                          number(centre.y), number(radius));
}

void Svg::cross(Point centre, double radius, std::string_view style) {
  line({centre.x - radius, centre.y - radius}, {centre.x + radius, centre.y + radius}, style);
  line({centre.x - radius, centre.y + radius}, {centre.x + radius, centre.y - radius}, style);
}

void Svg::rectangle(const Box& box, std::string_view style) {
  content_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", style,
                          number(box.left), number(box.top), number(box.width), number(box.height));
}

void Svg::text(Point at, std::string_view text, std::string_view style, Anchor anchor, double turned) {
  constexpr const char* anchors[] = {"start", "middle", "end"};
  content_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\"", style, number(at.x), number(at.y),
                          anchors[static_cast<int>(anchor)]);
  if (turned != 0)
    content_ += fmt::format(" transform=\"rotate({} {} {})\"", number(turned), number(at.x), number(at.y));
  content_ += fmt::format(">{}</text>\n", escaped(text));
}

void Svg::begin_clip(const Box& box) {
  content_ += fmt::format(
      "<clipPath id=\"clip{0}\"><rect x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{4}\"/></clipPath>\n"
      "<g clip-path=\"url(#clip{0})\">\n",
      clips_++, number(box.left), number(box.top), number(box.width), number(box.height));
}

void Svg::end_clip() { content_ += "</g>\n"; }

std::string Svg::finish() { return content_ + "</svg>\n"; }

}  // namespace rtf::cli
