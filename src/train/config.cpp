#include "train/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/atomic_file.h"
#include "core/edit_distance.h"
#include "core/printable.h"
#include "rtf/error.h"
#include "train/config_check.h"
#include "train/config_value.h"

namespace rtf::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* operation = "load_config";
constexpr const char* command_line = "the command line";

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::argument, operation, message); }

const Key* find_key(const std::string& path) {
  const auto& table = config_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Key& key) { return key.path == path; });
  return found == table.end() ? nullptr : &*found;
}

// "optimizer", whose keys are "optimizer.lr" and so on.
bool is_section(const std::string& path) {
  const auto& table = config_table();
  return std::any_of(table.begin(), table.end(), [&](const Key& key) { return key.path.starts_with(path + "."); });
}

[[noreturn]] void fail_unknown(const std::string& path, const std::string& source) {
  std::string nearest, word = path;
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  std::size_t best = SIZE_MAX;
  // Words of which more than half differs are not what was meant.
  const auto consider = [&](const std::string& x, const std::string& y, std::size_t more, const std::string& advice) {
    const std::size_t edits = edit_distance(x, y);
    if (2 * edits > std::max(x.size(), y.size()) || edits + more >= best) return;
    best = edits + more;
    nearest = advice;
  };
  for (const Key& key : config_table()) {
    const std::size_t dot = key.path.find('.');
    consider(word, key.path, 0, key.path);
    // A key without its section, or in the wrong one, is nearer than what merely looks alike.
    consider(word.substr(word.find('.') + 1), key.path.substr(dot + 1), 2, key.path);
    if (word.find('.') == std::string::npos) consider(word, key.path.substr(0, dot), 0, key.path.substr(0, dot));
  }
  fail(fmt::format("unknown key '{}' in {}; {}", path, source,
                   nearest.empty() ? "`rtf train --keys` lists them" : fmt::format("did you mean '{}'?", nearest)));
}

bool is_utf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

struct Setting {
  Scalar value;
  std::string source;  // the file, or the command line
};
using Settings = std::map<std::string, Setting>;  // by path; the last one to set a key wins

// The settings of one mapping, whose keys begin with `prefix`.
void flatten(const YAML::Node& node, const std::string& prefix, const std::string& file, Settings& settings) {
  for (const auto& entry : node) {
    if (!entry.first.IsScalar())
      fail(fmt::format("{}: a key is not a word (line {})", file, entry.first.Mark().line + 1));
    const std::string path = prefix + entry.first.Scalar();
    const YAML::Node& value = entry.second;
    if (prefix.empty() && path == "include") continue;
    if (!find_key(path)) {
      if (!is_section(path)) fail_unknown(path, file);
      if (!value.IsMap() && !value.IsNull()) fail(fmt::format("{}: {} is a section, expected keys in it", file, path));
      flatten(value, path + ".", file, settings);
      continue;
    }
    if (value.IsMap() || value.IsSequence()) {
      fail(fmt::format("{}: {} is a {}, expected {}", file, path, value.IsMap() ? "mapping" : "list",
                       type_text(*find_key(path))));
    }
    const Scalar scalar{value.IsNull() ? "null" : value.Scalar(), value.IsNull(), value.Tag() == "!"};
    if (!settings.emplace(path, Setting{scalar, file}).second) fail(fmt::format("{}: {} appears twice", file, path));
  }
}

// A section that is written twice would otherwise be merged without a word.
void check_duplicates(const YAML::Node& node, const std::string& file) {
  if (!node.IsMap()) return;
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (entry.first.IsScalar() && !seen.insert(entry.first.Scalar()).second) {
      fail(fmt::format("{}: '{}' appears twice (line {})", file, entry.first.Scalar(), entry.first.Mark().line + 1));
    }
  }
}

std::vector<std::string> includes_of(const YAML::Node& root, const std::string& file) {
  const YAML::Node list = root["include"];
  std::vector<std::string> paths;
  if (!list) return paths;
  const auto add = [&](const YAML::Node& node) {
    if (!node.IsScalar()) fail(fmt::format("{}: include is not a file name or a list of them", file));
    paths.push_back((fs::path(file).parent_path() / node.Scalar()).string());
  };
  if (list.IsSequence()) {
    for (const auto& node : list) add(node);
  } else {
    add(list);
  }
  return paths;
}

// Who chooses another layer leaves behind what was said of the one before: keys and words that the new one lacks.
void choose_layer(const std::string& layer, Settings& settings) {
  std::erase_if(settings, [&](const auto& setting) {
    const std::vector<std::string>& users = find_key(setting.first)->layers;
    const std::vector<std::string> choices = layer_choices(setting.first, layer);
    const auto lacks = [](const std::vector<std::string>& names, const std::string& name) {
      return !names.empty() && std::find(names.begin(), names.end(), name) == names.end();
    };
    return lacks(users, layer) || lacks(choices, setting.second.value.text);
  });
}

// `open` holds the files that are being read, the outermost first.
Settings read_settings(const std::string& file, std::vector<std::string>& open) {
  const std::string identity = fs::weakly_canonical(fs::absolute(file)).string();
  if (std::find(open.begin(), open.end(), identity) != open.end()) {
    fail(fmt::format("{} includes itself: {} -> {}", file, fmt::join(open, " -> "), identity));
  }
  const std::string text = read_file(file, operation);
  // yaml-cpp would put other characters in the place of bad bytes.
  if (!is_utf8(text)) fail(fmt::format("{}: not UTF-8 text", file));
  YAML::Node root;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) fail(fmt::format("{}: {} YAML documents, expected one", file, documents.size()));
    if (!documents.empty()) root = documents[0];
  } catch (const YAML::Exception& error) {
    fail(fmt::format("{}: not valid YAML: {} (line {})", file, error.msg, error.mark.line + 1));
  }
  if (!root.IsNull() && !root.IsMap()) fail(fmt::format("{}: not a mapping of keys to values", file));
  check_duplicates(root, file);
  for (const auto& entry : root) check_duplicates(entry.second, file);

  Settings settings;
  if (root.IsMap()) {
    open.push_back(identity);
    for (const std::string& path : includes_of(root, file)) {
      for (auto& [key, setting] : read_settings(path, open)) settings[key] = std::move(setting);
    }
    open.pop_back();
    Settings own;
    flatten(root, "", file, own);
    if (const auto layer = own.find("model.layer"); layer != own.end())
      choose_layer(layer->second.value.text, settings);
    for (auto& [key, setting] : own) settings[key] = std::move(setting);
  }
  return settings;
}

void apply_overrides(const std::vector<std::string>& overrides, Settings& settings) {
  for (const std::string& text : overrides)
    if (text.starts_with("model.layer=")) choose_layer(text.substr(text.find('=') + 1), settings);
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail(fmt::format("'{}' on the command line is not of the form key=value", text));
    }
    const std::string path = text.substr(0, equals), value = text.substr(equals + 1);
    if (is_section(path)) fail(fmt::format("{}: {} is a section, expected one of its keys", command_line, path));
    if (!find_key(path)) fail_unknown(path, command_line);
    Setting& setting = settings[path];
    setting.value = {value, value == "null" || value == "~", false};
    setting.source = command_line;
  }
}

// Some keys hold different words for different layers.
void check_choice(const Key& key, const Setting& setting, const Config& config) {
  const std::vector<std::string> choices = layer_choices(key.path, config.model.layer);
  const std::string& text = setting.value.text;
  if (choices.empty() || text.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return;
  fail(fmt::format("{}: {} is '{}', expected one of {} because model.layer is {}", setting.source, key.path, text,
                   fmt::join(choices, ", "), config.model.layer));
}

// Every key and value checked; `path` is where the settings are from.
Config resolve(const Settings& settings, const std::string& path) {
  Config config;
  for (const auto& [key, setting] : settings) {
    const Key& at = *find_key(key);
    if (!is_utf8(setting.value.text)) fail(fmt::format("{}: {} is not UTF-8 text", setting.source, key));
    if (!assign(at, config, setting.value)) {
      const std::string type = type_text(at);
      const char* article = type.starts_with("integer") ? "an " : type.starts_with("number") ? "a " : "";
      fail(fmt::format("{}: {} is {}, expected {}{}", setting.source, key,
                       setting.value.null ? "null" : fmt::format("'{}'", setting.value.text), article, type));
    }
  }
  if (config.task.name.empty()) {
    fail(fmt::format("{}: task.name is missing, expected {}", path, type_text(*find_key("task.name"))));
  }
  for (const auto& [key, setting] : settings) {
    const Key& at = *find_key(key);
    if (used_by(at, config)) {
      check_choice(at, setting, config);
      continue;
    }
    const bool task = !at.tasks.empty();
    fail(fmt::format("{}: {} means nothing to the {} {}, only to {}", setting.source, key, task ? "task" : "layer",
                     task ? config.task.name : config.model.layer, fmt::join(task ? at.tasks : at.layers, " and ")));
  }
  if (config.model.init.empty()) config.model.init = layer_choices("model.init", config.model.layer).front();
  check_together(config, path);
  return config;
}

}  // namespace

std::vector<ConfigKey> config_keys() {
  const Config defaults;
  std::vector<ConfigKey> keys;
  for (const Key& key : config_table()) {
    const auto& users = key.tasks.empty() ? key.layers : key.tasks;
    const std::string meaning =
        users.empty() ? key.meaning : fmt::format("{}: {}", fmt::join(users, ", "), key.meaning);
    keys.push_back({key.path, type_text(key), value_text(key, defaults), meaning});
  }
  return keys;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  std::vector<std::string> open;
  Settings settings = read_settings(path, open);
  apply_overrides(overrides, settings);
  return resolve(settings, path);
}

Config from_settings(const std::map<std::string, std::string>& values, const std::string& source) {
  Settings settings;
  for (const auto& [path, text] : values) {
    if (!find_key(path)) fail_unknown(path, source);
    try {
      const YAML::Node value = YAML::Load(text);
      if (!value.IsScalar() && !value.IsNull()) fail(fmt::format("{}: {} is not a single value", source, path));
      settings[path] = {{value.IsNull() ? "null" : value.Scalar(), value.IsNull(), value.Tag() == "!"}, source};
    } catch (const YAML::Exception&) {
      fail(fmt::format("{}: {} is '{}', expected {}", source, path, printable(text), type_text(*find_key(path))));
    }
  }
  return resolve(settings, source);
}

std::string to_yaml(const Config& config) {
  std::string text, section;
  for (const Key& key : config_table()) {
    if (!used_by(key, config)) continue;
    const std::size_t dot = key.path.find('.');
    if (key.path.substr(0, dot) != section) {
      section = key.path.substr(0, dot);
      text += fmt::format("{}{}:\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("  {:<32}  # {}\n", fmt::format("{}: {}", key.path.substr(dot + 1), value_text(key, config)),
                        key.meaning);
  }
  return text;
}

bool may_change(const std::string& path) {
  static const std::set<std::string> keys = {"train.epochs",  "train.steps", "train.device",
                                             "train.threads", "data.path",   "data.cache"};
  return keys.contains(path) || path.starts_with("checkpoint.") || path.starts_with("log.");
}

std::map<std::string, std::string> fixed_settings(const Config& config) {
  std::map<std::string, std::string> settings;
  for (const Key& key : config_table()) {
    if (used_by(key, config) && !may_change(key.path)) settings[key.path] = value_text(key, config);
  }
  return settings;
}

std::optional<ConfigDifference> first_difference(const Config& left, const Config& right) {
  for (const Key& key : config_table()) {
    const std::string a = value_text(key, left), b = value_text(key, right);
    if (a != b) return ConfigDifference{key.path, a, b};
  }
  return {};
}

}  // namespace rtf::train
