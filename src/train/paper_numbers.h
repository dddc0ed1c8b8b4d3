// What the paper reports for a run's task and layer. Free of torch.
#pragma once

#include <string>

#include "train/config.h"

namespace rtf::train {

// Its score as printed: accuracies in percent, of Delay the root mean square error; "chance" where the model did not
// learn. Empty where it reports none: other layers, other state sizes of Copying and Delay, other `task` settings.
std::string paper_number(const Config& config);

}  // namespace rtf::train
