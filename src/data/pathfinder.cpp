#include "data/pathfinder.h"

#include <algorithm>
#include <cmath>

#include "core/arguments.h"
#include "data/draws.h"
#include "data/pathfinder_paths.h"
#include "data/pathfinder_shapes.h"

namespace rtf::data {

struct Pathfinder::Shapes {
  std::vector<DashTable> dashes;  // by margin, from the lowest on
  Stamp disc;
};

Pathfinder::Pathfinder(const PathfinderOptions& options) : options_(options) {
  const bool room = options.size > 4 * options.seed_distance + options.segment_length && options.size <= 128;
  if (!room || options.margins[0] > options.margins[1])
    throw Error(ErrorCode::argument, "pathfinder", "no image has these sizes");
  auto shapes = std::make_unique<Shapes>();
  for (int margin = options.margins[0]; margin <= options.margins[1]; ++margin)
    shapes->dashes.emplace_back(options, margin);
  shapes->disc = draw_disc(options);
  shapes_ = std::move(shapes);
}

Pathfinder::~Pathfinder() = default;

PathfinderSample Pathfinder::draw(std::uint64_t seed, std::uint32_t index) const {
  Draws draws(seed, index, Generator::pathfinder);
  PathfinderSample sample;
  sample.label = static_cast<int>(draws.below(2));
  const DashTable& dashes = shapes_->dashes[draws.below(static_cast<std::uint32_t>(shapes_->dashes.size()))];
  sample.margin = dashes.margin;
  PathBoard board(options_, dashes, draws);
  const auto paths = board.draw_paths(sample.restarts);
  const auto distractors = board.draw_distractors();

  const int size = options_.size, side = board_side(options_);
  std::vector<float> room(static_cast<std::size_t>(side * side));
  float* image = room.data() + board_edge * side + board_edge;
  const auto put = [&](const PlacedStamp& placed, double contrast) {
    float* at = image + placed.place.row * side + placed.place.column;
    for (const auto& pixel : placed.stamp->pixels)
      at[pixel.offset] = std::max(at[pixel.offset], static_cast<float>(contrast) * pixel.value);
  };
  for (std::size_t i = 0; i < 2; ++i) {
    for (const PlacedStamp& line : paths[i].lines) put(line, options_.path_contrast);
    sample.paths[i] = paths[i].path;
  }
  for (const DrawnPath& distractor : distractors) {
    for (const PlacedStamp& line : distractor.lines) put(line, options_.distractor_contrast);
    sample.distractors.push_back(distractor.path);
  }
  const std::size_t origin = draws.below(2), terminal = sample.label == 1 ? origin : 1 - origin;
  sample.markers = {sample.paths[origin].origin_tip(), sample.paths[terminal].terminal_tip()};
  for (const Point& marker : sample.markers) put({&shapes_->disc, marker}, 1);

  float least = image[0], most = image[0];
  for (int row = 0; row < size; ++row) {
    const auto [low, high] = std::minmax_element(image + row * side, image + row * side + size);
    least = std::min(least, *low);
    most = std::max(most, *high);
  }
  sample.pixels.reserve(static_cast<std::size_t>(size * size));
  for (int row = 0; row < size; ++row)
    for (int column = 0; column < size; ++column)
      sample.pixels.push_back(
          static_cast<std::uint8_t>(std::lround((image[row * side + column] - least) * (255 / (most - least)))));
  return sample;
}

}  // namespace rtf::data
