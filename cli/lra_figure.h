// What `rtf bench lra` has measured, as tables, JSON and a picture. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rtf::cli {

// One layer of one task's model.
struct LayerTime {
  std::string task, layer;
  int64_t batch = 0, length = 0, channels = 0, order = 0;
  bool own = false;                  // the order is that of the task's config
  double forward = 0, training = 0;  // milliseconds; not a number: it did not fit the memory
};

struct LraFigures {
  std::string device, precision;
  int64_t repeats = 0;
  std::vector<std::string> tasks, layers;  // in their order
  std::vector<LayerTime> times;
};

// A table of each pass, times of the layers and their ratios to the first layer's, and the means of the ratios over the
// tasks, each layer at its own order.
std::string lra_text(const LraFigures& figures);
std::string lra_json(const LraFigures& figures);
std::string lra_svg(const LraFigures& figures);

}  // namespace rtf::cli
