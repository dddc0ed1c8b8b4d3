// The table behind config files: every key once, with its member of Config, its meaning and what it may hold.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "train/config.h"

namespace rtf::train {

struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;  // the end itself is not allowed

  bool holds(double value) const;
  std::string text() const;  // "from 0 to below 1"; empty when all numbers are allowed
};

template <class T>
using Member = std::function<T&(Config&)>;

struct Key {
  std::string path;  // "optimizer.lr"
  std::variant<Member<int64_t>, Member<uint64_t>, Member<double>, Member<std::optional<double>>, Member<bool>,
               Member<std::string>>
      member;
  std::string meaning;
  Range range = {};                       // of numbers
  std::vector<std::string> choices = {};  // of text; empty: any
  std::vector<std::string> tasks = {};    // that use it; empty: all
  std::vector<std::string> layers = {};   // values of model.layer that use it; empty: all
};

// In the order of to_yaml().
const std::vector<Key>& config_table();

// By the task and the layer of the config.
bool used_by(const Key& key, const Config& config);

// What model.init and model.constraint may be for a value of model.layer, its default first; empty for other keys.
std::vector<std::string> layer_choices(const std::string& path, const std::string& layer);

}  // namespace rtf::train
