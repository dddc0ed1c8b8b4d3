#include "data/pathfinder_paths.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/arguments.h"

namespace rtf::data {
namespace {

using std::numbers::pi;

constexpr float overlap = 1.8f;        // two segments may not take so much of a pixel between them
constexpr float blocked_from = 0.5f;   // where a path cannot begin
constexpr double least_weight = 1e-4;  // of all candidates together
constexpr double least_free = 0.01;    // the share of pixels below which no further distractor is tried
constexpr int seed_tries = 3;
constexpr std::size_t most_restarts = 1000000;

double radians(std::size_t degree) { return (static_cast<double>(degree) - 180) * pi / 180; }

// How far two directions are apart, from 0 to pi.
double angle_between(double a, double b) {
  const double turn = std::abs(a - b);
  return turn > pi ? 2 * pi - turn : turn;
}

// A row of pixels, one a bit: shifting finds all places of a shape at once.
__extension__ typedef unsigned __int128 BitRow;

int count_bits(BitRow row) {
  return __builtin_popcountll(static_cast<std::uint64_t>(row)) +
         __builtin_popcountll(static_cast<std::uint64_t>(row >> 64));
}

}  // namespace

Point step(Point p, double angle, double radius) {
  // Less a little, because the sine of pi is not quite 0.
  const auto up = [&](int from, double distance) { return from + static_cast<int>(std::ceil(distance - 1e-9)); };
  return {up(p.row, radius * std::sin(angle)), up(p.column, radius * std::cos(angle))};
}

PathBoard::PathBoard(const PathfinderOptions& options, const DashTable& dashes, Draws& draws)
    : options_(options), dashes_(dashes), draws_(draws) {
  const int m = dashes.margin;
  for (int row = -m; row <= m; ++row)
    for (int column = -m; column <= m; ++column)
      if (row * row + column * column <= m * m) disc_.push_back(row * board_side(options) + column);
  empty_.assign(static_cast<std::size_t>(board_side(options) * board_side(options)), 0.0f);
  for (int row = 0; row < options.size; ++row)
    for (int column = 0; column < options.size; ++column)
      if (std::min({row, column, options.size - 1 - row, options.size - 1 - column}) < options.padding)
        empty_[static_cast<std::size_t>(index({row, column}))] = 1;
  taken_ = pending_[0] = pending_[1] = empty_;
}

void PathBoard::put(PlacedStamp mask, Room& room) const {
  float* at = room.data() + index(mask.place);
  for (const auto& pixel : mask.stamp->pixels) at[pixel.offset] = std::max(at[pixel.offset], pixel.value);
}

void PathBoard::clear(PlacedStamp mask, Room& room) const {
  if (!mask.stamp) return;
  float* at = room.data() + index(mask.place);
  const float* empty = empty_.data() + index(mask.place);
  for (const auto& pixel : mask.stamp->pixels) at[pixel.offset] = empty[pixel.offset];
}

bool PathBoard::fits(PlacedStamp mask, const Room& room) const {
  const float* at = room.data() + index(mask.place);
  return std::none_of(mask.stamp->pixels.begin(), mask.stamp->pixels.end(),
                      [&](const Stamp::Pixel& pixel) { return at[pixel.offset] + pixel.value >= overlap; });
}

float PathBoard::taken_around(Point p) const {
  const float* at = taken_.data() + index(p);
  float most = 0;
  for (const int offset : disc_) most = std::max(most, at[offset]);
  return most;
}

void PathBoard::add(Growth& growth, const Segment& segment, const Dash& dash, Point place) const {
  growth.drawn.path.segments.push_back(segment);
  growth.drawn.lines.push_back({&dash.line, place});
  const PlacedStamp before = std::exchange(growth.last, {&dash.mask, place});
  if (!growth.pending) return;
  clear(before, *growth.pending);
  put(growth.last, *growth.pending);
}

// The first segment; false where it, or the joint before it, leaves the image.
bool PathBoard::begin(Growth& growth, Point tail, std::size_t degree) const {
  const double angle = radians(degree);
  const Point head = step(tail, angle, options_.segment_length);
  growth.pivot = step(head, angle + pi, options_.segment_length + dashes_.margin);
  if (!inside(tail) || !inside(head) || !inside(growth.pivot)) return false;
  add(growth, {tail, head, angle}, dashes_.seeds[degree], tail);
  return true;
}

// The first path begins in the middle: no nearer to an edge than twice the distance to the second.
bool PathBoard::seed_first(Growth& growth) {
  for (int attempt = 0; attempt < seed_tries; ++attempt) {
    const auto degree = draws_.below(360);
    const Point head = step({0, 0}, radians(degree), options_.segment_length);
    const int lowest = 2 * options_.seed_distance, width = options_.size - 2 * lowest;
    // A tail whose head lies in the middle too.
    const auto draw = [&](int offset) {
      return lowest + std::max(-offset, 0) +
             static_cast<int>(draws_.below(static_cast<unsigned>(width - std::abs(offset))));
    };
    const int row = draw(head.row), column = draw(head.column);
    if (begin(growth, {row, column}, degree)) return true;
  }
  return false;
}

bool PathBoard::seed_second(Growth& growth, const Growth& first) {
  const Point origin = first.drawn.path.origin_tip();
  for (int attempt = 0; attempt < seed_tries; ++attempt) {
    const double turn = radians(draws_.below(360));
    const auto degree = draws_.below(360);
    const Point tail = {origin.row + static_cast<int>(std::lround(options_.seed_distance * std::sin(turn))),
                        origin.column + static_cast<int>(std::lround(options_.seed_distance * std::cos(turn)))};
    const PlacedStamp mask = {&dashes_.seeds[degree].mask, tail};
    if (fits(mask, taken_) && fits(mask, *first.pending) && begin(growth, tail, degree)) return true;
  }
  return false;
}

// Anywhere that the room of the first segment is free, every such place as likely as any other.
bool PathBoard::seed_anywhere(Growth& growth) {
  const int size = options_.size;
  const auto count = static_cast<std::size_t>(size);
  const BitRow all = size == 128 ? ~BitRow{0} : (BitRow{1} << size) - 1;
  std::vector<BitRow> blocked(count);
  for (int row = 0; row < size; ++row)
    for (int column = 0; column < size; ++column)
      if (taken_[static_cast<std::size_t>(index({row, column}))] >= blocked_from)
        blocked[static_cast<std::size_t>(row)] |= BitRow{1} << column;

  for (int attempt = 0; attempt < seed_tries; ++attempt) {
    const auto degree = draws_.below(360);
    std::vector<BitRow> free(count, all);
    for (const auto& pixel : dashes_.seeds[degree].mask.pixels) {
      if (pixel.value < blocked_from) continue;
      // What lies outside the image is blocked.
      const int shift = std::abs(pixel.column);
      const BitRow outside = pixel.column < 0 ? ~(all << shift) : all & ~(all >> shift);
      for (int row = 0; row < size; ++row) {
        const int below = row + pixel.row;
        if (below < 0 || below >= size) {
          free[static_cast<std::size_t>(row)] = 0;
          continue;
        }
        const BitRow bits = blocked[static_cast<std::size_t>(below)];
        free[static_cast<std::size_t>(row)] &= ~((pixel.column < 0 ? bits << shift : bits >> shift) | outside);
      }
    }
    std::uint32_t places = 0;
    for (const BitRow row : free) places += static_cast<std::uint32_t>(count_bits(row));
    if (places == 0) continue;
    auto chosen = static_cast<int>(draws_.below(places));
    int row = 0, column = -1;
    for (; chosen >= count_bits(free[static_cast<std::size_t>(row)]); ++row)
      chosen -= count_bits(free[static_cast<std::size_t>(row)]);
    for (; chosen >= 0; chosen -= free[static_cast<std::size_t>(row)] >> column & 1 ? 1 : 0) ++column;
    if (begin(growth, {row, column}, degree)) return true;
  }
  return false;
}

// One segment more; `other` is what a path that grows beside this one has pending.
bool PathBoard::extend(Growth& growth, const Room* other) {
  const double direction = growth.drawn.path.segments.back().angle;
  const int margin = dashes_.margin, length = options_.segment_length;
  const Point pivot = step(growth.pivot, direction, length + 2 * margin);
  double sum = 0;
  sums_.clear();
  for (const Candidate& candidate : dashes_.candidates) {
    const Point head = {pivot.row + candidate.offset.row, pivot.column + candidate.offset.column};
    const double bend = options_.continuity * angle_between(candidate.angle, direction);
    if (inside(head) && bend < pi / 2) sum += std::cos(bend) * std::cos(bend) * (1 - taken_around(head));
    sums_.push_back(sum);
  }
  if (sum < least_weight) return false;
  for (int attempt = 0; attempt < options_.segment_tries; ++attempt) {
    const double drawn = draws_.uniform() * sum;
    const auto chosen = std::upper_bound(sums_.begin(), sums_.end(), drawn) - sums_.begin();
    const Candidate& candidate = dashes_.candidates[static_cast<std::size_t>(chosen)];
    const Point head = {pivot.row + candidate.offset.row, pivot.column + candidate.offset.column};
    const PlacedStamp mask = {&candidate.dash.mask, head};
    if (!fits(mask, taken_) || (other && !fits(mask, *other))) continue;
    settle(growth);
    growth.pivot = pivot;
    add(growth, {step(head, candidate.angle + pi, length), head, candidate.angle}, candidate.dash, head);
    return true;
  }
  return false;
}

void PathBoard::settle(const Growth& growth) {
  put(growth.last, taken_);
  settled_.push_back(growth.last);
}

bool PathBoard::draw_pair(std::array<Growth, 2>& pair) {
  for (const PlacedStamp& mask : settled_) clear(mask, taken_);
  settled_.clear();
  for (std::size_t i = 0; i < 2; ++i) {
    clear(pair[i].last, pending_[i]);
    pair[i] = {};
    pair[i].pending = &pending_[i];
  }
  if (!seed_first(pair[0]) || !seed_second(pair[1], pair[0])) return false;
  for (int segment = 1; segment < options_.segments; ++segment)
    if (!extend(pair[0], pair[1].pending) || !extend(pair[1], pair[0].pending)) return false;
  for (Growth& growth : pair) settle(growth);
  return true;
}

std::array<DrawnPath, 2> PathBoard::draw_paths(std::size_t& restarts) {
  std::array<Growth, 2> pair;
  for (restarts = 0; !draw_pair(pair); ++restarts)
    if (restarts == most_restarts)
      throw Error(ErrorCode::argument, "pathfinder", "two such paths do not fit the image");
  return {std::move(pair[0].drawn), std::move(pair[1].drawn)};
}

std::optional<DrawnPath> PathBoard::draw_distractor() {
  Growth growth;
  if (!seed_anywhere(growth)) return std::nullopt;
  for (int segment = 1; segment < options_.distractor_segments; ++segment)
    if (!extend(growth, nullptr)) return std::nullopt;
  settle(growth);
  return std::move(growth.drawn);
}

std::vector<DrawnPath> PathBoard::draw_distractors() {
  std::vector<DrawnPath> distractors;
  for (int i = 0; i < options_.distractors; ++i) {
    int free = 0;
    for (int row = 0; row < options_.size; ++row)
      for (int column = 0; column < options_.size; ++column)
        free += taken_[static_cast<std::size_t>(index({row, column}))] < blocked_from;
    if (free < least_free * options_.size * options_.size) break;
    const Room before = taken_;
    for (int attempt = 0; attempt < options_.distractor_tries; ++attempt) {
      if (auto drawn = draw_distractor()) {
        distractors.push_back(std::move(*drawn));
        break;
      }
      taken_ = before;
    }
  }
  return distractors;
}

}  // namespace rtf::data
