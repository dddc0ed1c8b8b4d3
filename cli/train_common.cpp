#include "train_common.h"

#include <cstdio>

#include "train/config.h"
#include "train/table.h"

namespace rtf::cli {

void print_config_keys() {
  train::Table table({"key", "type", "default", "meaning"});
  for (const train::ConfigKey& key : train::config_keys()) {
    table.row({key.path, key.type, key.initial, key.meaning});
  }
  std::fputs(table.text().c_str(), stdout);
}

}  // namespace rtf::cli
