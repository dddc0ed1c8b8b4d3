#include "train_common.h"

#include <cstdio>

#include "core/progress_bar.h"
#include "train/config.h"
#include "train/device_name.h"
#include "train/table.h"

namespace rtf::cli {

void add_device(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "cuda (the default), cuda:N or cpu")
      ->check([](const std::string& name) {
        return train::device_number(name) ? std::string() : name + " is no device; expected one of cpu, cuda, cuda:N";
      })
      ->type_name("DEVICE");
}

void each_with_bar(std::size_t count, bool quiet, const std::function<void(std::size_t)>& one) {
  ProgressBar bar(quiet);
  for (std::size_t i = 0; i < count; ++i) {
    bar.draw(i, count);
    one(i);
  }
}

void print_config_keys() {
  train::Table table({"key", "type", "default", "meaning"});
  for (const train::ConfigKey& key : train::config_keys()) {
    table.row({key.path, key.type, key.initial, key.meaning});
  }
  std::fputs(table.text().c_str(), stdout);
}

}  // namespace rtf::cli
