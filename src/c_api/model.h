// What the handle of a model holds.
#pragma once

#include <variant>
#include <vector>

#include "rtf.h"
#include "rtf/stream.h"

struct rtf_model {
  std::variant<rtf::stream::Model<float>, rtf::stream::Model<double>> model;  // in the order of rtf_precision
  std::vector<rtf_layer_info> layers;
};
