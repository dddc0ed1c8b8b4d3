// What no single key of a config can say.
#pragma once

#include <string>

#include "train/config.h"

namespace rtf::train {

// Throws rtf::Error that names `file`, the keys and their values.
void check_together(const Config& config, const std::string& file);

}  // namespace rtf::train
