// Values of config keys as text: what a key may hold, and between text and Config.
#pragma once

#include <string>

#include "train/config_table.h"

namespace rtf::train {

// A value as it is written down.
struct Scalar {
  std::string text;
  bool null = false;
  bool quoted = false;  // text, whatever it looks like
};

// What the key may hold: "integer from 1 on", "one of zero, xavier".
std::string type_text(const Key& key);
// False when `value` is not of the key's type or is out of its range.
bool assign(const Key& key, Config& config, const Scalar& value);
// The value as YAML, every bit of a number kept.
std::string value_text(const Key& key, const Config& config);

}  // namespace rtf::train
